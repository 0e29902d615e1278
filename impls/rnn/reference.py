"""Reference for the Elman network, computed one step at a time: every Elman layer is checked against it.

    h_t = tanh(W_x x_t + b_x + W_h h_{t-1} + b_h),   h_0 = 0

The code follows the formula literally, with nothing hoisted. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.rnn.elman import Elman


class ElmanReference(Elman):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            from_input = torch.einsum("ed,bd->be", self.weight_ih_l0, x[:, t]) + self.bias_ih_l0  # (b, d)
            from_state = torch.einsum("ed,bd->be", self.weight_hh_l0, h) + self.bias_hh_l0  # (b, d)
            h = torch.tanh(from_input + from_state)  # (b, d)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)
