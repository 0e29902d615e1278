"""A layer with an own axis: how many maps follow each other."""

from typing import Any, ClassVar

from torch import Tensor, nn


class Repeats(nn.Module):
    """r maps, one after another, all in each round."""

    axes: ClassVar[dict[str, Any]] = {"times": ("r", 2)}
    claims: ClassVar[dict[str, str]] = {"work": "2nrd²"}

    def __init__(self, d_model: int, times: int = 2, rounds: int = 1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(times))
        self.rounds = rounds

    def forward(self, x: Tensor) -> Tensor:
        for one in [*self.layers] * self.rounds:
            x = one(x)
        return x
