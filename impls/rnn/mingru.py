"""minGRU with the loop over time in Python.

    z_t = σ(W_z x_t + b_z),   h̃_t = g(W_h x_t + b_h),   h_t = (1 − z_t) ⊙ h_{t-1} + z_t ⊙ h̃_t,   h_0 = 0

Feng et al. 2024, "Were RNNs All We Needed?", section 3.1, with the g of appendix B (`positive.py`). Compared with the
GRU, neither gate nor candidate depends on h_{t-1}. A third of the products remains, all of them before the loop. The
paper does not specify h_0: every form here uses 0.
"""

import torch
from torch import Tensor, nn

from impls.rnn.diagonal import DiagonalRecurrence
from impls.rnn.positive import g


class MinGRU(DiagonalRecurrence):
    """(b, n, d) -> (b, n, d): every h_t, all of them positive. `num_heads` is accepted but unused."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.gate = nn.Linear(d_model, d_model)
        self.candidate = nn.Linear(d_model, d_model)

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.gate(x)  # (…, d)
        return torch.sigmoid(-gate), torch.sigmoid(gate) * g(self.candidate(x))  # 1 − σ(x) = σ(−x), no digits lost
