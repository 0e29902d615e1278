"""A gated linear recurrence in ⌈log₂ n⌉ steps: an explicit associative scan.

    h_t = a_t ⊙ h_{t-1} + (1 − a_t) ⊙ W_v x_t,   a_t = σ(W_a x_t + b_a),   h_0 = 0

Martin & Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length", section 2; the scan of
`doubling.py`. Beyond minGRU: states may have either sign, as nothing goes through logarithms, and the scan is no
kernel but there to be read, its depth of log₂ n to be counted. Its products are those of minGRU; the scan's own
work, which is elementwise, is n log₂ n where a loop's is n.
"""

import torch
from torch import Tensor, nn

from impls.rnn.diagonal import DiagonalRecurrence
from impls.rnn.doubling import linear_recurrence


class LinearScan(DiagonalRecurrence):
    """(b, n, d) -> (b, n, d): every h_t. `num_heads` is accepted and not used."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.gate = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model, bias=False)

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.gate(x)  # (…, d)
        return torch.sigmoid(gate), torch.sigmoid(-gate) * self.value(x)  # 1 − σ(x) = σ(−x), with all its digits

    def forward(self, x: Tensor) -> Tensor:
        return linear_recurrence(*self.terms(x))  # (b, n, d)
