"""Gated linear recurrence in ⌈log₂ n⌉ steps, by an explicit associative scan.

    h_t = a_t ⊙ h_{t-1} + (1 − a_t) ⊙ W_v x_t,   a_t = σ(W_a x_t + b_a),   h_0 = 0

Martin & Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length", section 2; the scan is in
`doubling.py`. There are two differences from minGRU. States may have either sign, because no logarithms are taken. The
scan is visible code instead of a kernel, so that its depth of log₂ n can be read and counted.

The matrix products are those of minGRU. The scan's own work is elementwise: n log₂ n, where a loop needs n.
"""

import torch
from torch import Tensor, nn

from impls.rnn.diagonal import DiagonalRecurrence
from impls.rnn.doubling import linear_recurrence


class LinearScan(DiagonalRecurrence):
    """(b, n, d) -> (b, n, d): every h_t. `num_heads` is accepted but unused."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.gate = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model, bias=False)

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.gate(x)  # (…, d)
        return torch.sigmoid(gate), torch.sigmoid(-gate) * self.value(x)  # 1 − σ(x) = σ(−x), without loss of digits

    def forward(self, x: Tensor) -> Tensor:
        return linear_recurrence(*self.terms(x))  # (b, n, d)
