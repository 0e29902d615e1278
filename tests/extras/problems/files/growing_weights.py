"""A state space model whose parameters have the batch and the length, as in chunked scans."""

import torch
from torch import Tensor, nn

batch_size, seq_length, n_heads, d_head, d_state = 2, 16, 2, 4, 3


class Model(nn.Module):
    def __init__(self, batch_size: int, seq_length: int, n_heads: int, d_state: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.rand(batch_size, seq_length, n_heads))
        self.reads = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_state))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = x.new_zeros(x.shape[0], x.shape[2], self.reads.shape[-1], x.shape[3])
        outputs = []
        for at, x_t in enumerate(x.unbind(1)):
            state = self.decay[:, at, :, None, None] * state + self.reads[:, at, :, :, None] * x_t[:, :, None]
            outputs.append(state.sum(2))
        return torch.stack(outputs, 1), state


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, seq_length, n_heads, d_head)]


def get_init_inputs() -> list[int]:
    return [batch_size, seq_length, n_heads, d_state]
