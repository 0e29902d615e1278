"""Sizes that are defaults of functions: `dim` of both, and `factor`, which has two values and stays."""

from torch import Tensor, nn, randn

hidden = 24


class Model(nn.Module):
    def __init__(self, dim: int, hidden: int, factor: int) -> None:
        super().__init__()
        self.up, self.factor = nn.Linear(dim, hidden, bias=False), factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.up(x)


def get_inputs(batch_size: int = 2, seq_len: int = 16, dim: int = 8, factor: int = 1) -> list[Tensor]:
    return [factor * randn(batch_size, seq_len, dim)]


def get_init_inputs(dim: int = 8, hidden: int = hidden, factor: int = 3) -> list[int]:
    return [dim, hidden, factor]
