"""Causal mean: y_t = W · (1/t) Σ_{s ≤ t} x_s. A baseline without parameters between tokens."""

import torch
from torch import Tensor, nn


class CausalMean(nn.Module):
    """(b, n, d) -> (b, n, d)."""

    causal = True
    claims = {"work": "2nd²", "memory": "nd", "depth": "1"}

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)  # (n,)
        return self.out(x.cumsum(1) / counts[:, None])  # (b, n, d)
