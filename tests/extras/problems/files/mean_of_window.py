"""A layer with a width of its own: the mean of the last tokens, added one after another."""

from typing import ClassVar

import torch
from torch import Tensor, nn


class MeanOfWindow(nn.Module):
    """(b, n, d) -> (b, n, d)."""

    causal = True
    axes: ClassVar = {"window": ("w", 4)}

    def __init__(self, d_model: int, window: int = 4, bias: bool = True) -> None:
        super().__init__()
        self.out = nn.Linear(d_model, d_model, bias)
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for shift in range(self.window):
            total = total + nn.functional.pad(x, (0, 0, shift, 0))[:, : x.shape[1]]
        return self.out(total / self.window)  # (b, n, d)
