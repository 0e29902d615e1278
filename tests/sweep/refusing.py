"""Layers that say which cases they support, or do not come to say it."""

import os
from typing import Any

from torch import Tensor, nn

print("an import may print")


class OnlyEven(nn.Module):
    """What it refuses depends on n."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.proj(x)
        return y

    @staticmethod
    def supports(case: Any) -> str | None:
        print("so may this")
        return "n is odd" if case.seq_len % 2 else None


class OfOtherTiles(OnlyEven):
    """Of what is verified it takes something else, and 4096 too."""

    @staticmethod
    def supports(case: Any) -> str | None:
        return None if case.seq_len in (160, 4096) else "n has no tiles"


class OnlyLong(OnlyEven):
    """Nothing that could be verified."""

    @staticmethod
    def supports(case: Any) -> str | None:
        return None if case.seq_len > 2000 else "n is short"


class Raises(OnlyEven):
    """A mistake in what is asked."""

    @staticmethod
    def supports(case: Any) -> str | None:
        raise ValueError("no such luck")


class Exits(OnlyEven):
    """It takes its process with it."""

    @staticmethod
    def supports(case: Any) -> str | None:
        os._exit(3)
