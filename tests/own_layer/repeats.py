"""A layer with an axis of its own: how many maps follow each other."""

from typing import Any, ClassVar

from torch import Tensor, nn


class Repeats(nn.Module):
    """r maps, one after another."""

    axes: ClassVar[dict[str, Any]] = {"times": ("r", 2)}
    claims: ClassVar[dict[str, str]] = {"work": "2nrd²"}

    def __init__(self, d_model: int, times: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(times))

    def forward(self, x: Tensor) -> Tensor:
        for one in self.layers:
            x = one(x)
        return x
