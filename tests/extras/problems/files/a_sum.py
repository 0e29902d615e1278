"""One more token than the integer says: a dimension that is no product."""

from torch import Tensor, nn, randn

seq_len = 16
dim = 8


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1)


def get_inputs() -> list[Tensor]:
    return [randn(2, seq_len + 1, dim)]


def get_init_inputs() -> list[int]:
    return []
