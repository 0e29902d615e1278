"""Layers of very many short parallel regions. Threads of other processes hold them up if there are too few CPUs.

Forty linear layers with tanh, in one call. `TenMore` and `FiveMore` do 10 % and 5 % more work of the same kind.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn


class Deep(nn.Module):
    depth: ClassVar[int] = 40

    def __init__(
        self, d_model: int, num_heads: int = 1, dtype: torch.dtype | None = None, device: torch.device | None = None
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model, dtype=dtype, device=device) for _ in range(self.depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class Twin(Deep):
    pass


class FiveMore(Deep):
    depth = 42


class TenMore(Deep):
    depth = 44
