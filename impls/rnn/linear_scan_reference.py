"""Reference for the gated linear recurrence, computed one step at a time: its scan is checked against this.

    h_t = a_t ⊙ h_{t-1} + (1 − a_t) ⊙ W_v x_t,   a_t = σ(W_a x_t + b_a),   h_0 = 0

The code follows the formula literally. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.rnn.linear_scan import LinearScan


class LinearScanReference(LinearScan):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            a = 1 / (1 + torch.exp(-torch.einsum("ed,bd->be", self.gate.weight, x[:, t]) - self.gate.bias))  # (b, d)
            h = a * h + (1 - a) * torch.einsum("ed,bd->be", self.value.weight, x[:, t])
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)
