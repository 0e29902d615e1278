"""Layers that say which cases they support, or fail when asked."""

import os
from typing import Any

from torch import Tensor, nn

print("an import may print")


class OnlyEven(nn.Module):
    """Refuses odd n."""

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
    """Supports n = 160 and n = 4096 only, so not the usual n of a verification."""

    @staticmethod
    def supports(case: Any) -> str | None:
        return None if case.seq_len in (160, 4096) else "n has no tiles"


class OnlyLong(OnlyEven):
    """Supports no n that is small enough to verify."""

    @staticmethod
    def supports(case: Any) -> str | None:
        return None if case.seq_len > 2000 else "n is short"


class Raises(OnlyEven):
    """Raises an exception in `supports`."""

    @staticmethod
    def supports(case: Any) -> str | None:
        raise ValueError("no such luck")


class Exits(OnlyEven):
    """Ends its process in `supports`."""

    @staticmethod
    def supports(case: Any) -> str | None:
        os._exit(3)
