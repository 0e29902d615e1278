"""Sizes that one statement binds, and two outputs."""

from torch import Tensor, nn, randn

batch_size, seq_len, dim = 2, 16, 2**3


class Model(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.cumsum(1), x


def get_inputs() -> list[Tensor]:
    return [randn(batch_size, seq_len, dim)]


def get_init_inputs() -> list[int]:
    return []
