"""A task in the shape of robust-kbench. Its sizes are in `config_forward.json`."""

import torch
from torch import Tensor, nn


def forward_fn(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x @ weight.T + eps


class Model(nn.Module):
    def __init__(self, width: int = 16, out: int = 8, eps: float = 0.5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, width))
        self.eps = eps

    def forward(self, x: Tensor, fn=forward_fn) -> Tensor:
        return fn(x, self.weight, self.eps)


def get_inputs(batch_size: int = 4, seq_len: int = 64, width: int = 16) -> list[Tensor]:
    return [torch.randn(batch_size, seq_len, width)]
