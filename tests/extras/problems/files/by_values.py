"""A model whose steps depend on values, which the device meta cannot run."""

from torch import Tensor, nn, randn

seq_len = 16
dim = 8


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x * 3


def get_inputs() -> list[Tensor]:
    return [randn(2, seq_len, dim)]


def get_init_inputs() -> list[int]:
    return []
