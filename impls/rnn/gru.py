"""Gated recurrent unit (GRU) with the loop over time in Python.

    r_t = σ(W_ir x_t + b_ir + W_hr h_{t-1} + b_hr)               reset gate
    z_t = σ(W_iz x_t + b_iz + W_hz h_{t-1} + b_hz)               update gate
    c_t = tanh(W_in x_t + b_in + r_t ⊙ (W_hn h_{t-1} + b_hn))    candidate
    h_t = (1 − z_t) ⊙ c_t + z_t ⊙ h_{t-1},   h_0 = 0

Cho et al. 2014, "Learning Phrase Representations using RNN Encoder–Decoder", section 2.3, in the variant of
`torch.nn.GRU`: the reset gate is applied after the recurrent product, not before it. One product then serves all gates.
Compared with Elman, each step chooses anew what to keep of the past, at three times the work.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

from impls.rnn.parameters import RecurrentParameters


class GRU(RecurrentParameters):
    """(b, n, d) -> (b, n, d): every h_t. Gates are stacked as r, z, c, as in `torch.nn.GRU`."""

    gates = 3

    def forward(self, x: Tensor) -> Tensor:
        h = self.start(x.shape[0], x.shape[1])  # (b, d)
        states = []
        for input_t in self.inputs(x).unbind(dim=1):  # n times (b, 3d)
            h = self.cell(input_t, h)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def inputs(self, x: Tensor) -> Tensor:
        """Return W_i x + b_i of all gates, which does not depend on earlier states: (…, d) -> (…, 3d)."""
        return linear(x, self.weight_ih_l0, self.bias_ih_l0)

    def cell(self, input_t: Tensor, h: Tensor) -> Tensor:
        """Return h_t from the gates' inputs (b, 3d) and h_{t-1} (b, d)."""
        input_gates, input_candidate = input_t.split([2 * h.shape[-1], h.shape[-1]], dim=-1)  # (b, 2d), (b, d)
        recurrent = linear(h, self.weight_hh_l0, self.bias_hh_l0)  # (b, 3d)
        recurrent_gates, recurrent_candidate = recurrent.split([2 * h.shape[-1], h.shape[-1]], dim=-1)
        reset, update = torch.sigmoid(input_gates + recurrent_gates).chunk(2, dim=-1)  # (b, d) each
        candidate = torch.tanh(torch.addcmul(input_candidate, reset, recurrent_candidate))  # (b, d)
        return torch.lerp(candidate, h, update)  # (b, d)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return h_0 (b, d), the whole decoding state. Its size does not grow with the number of tokens."""
        return self.weight_hh_l0.new_zeros(batch_size, self.weight_hh_l0.shape[1])

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t and h_{t-1}."""
        h = self.cell(self.inputs(x_t), h)
        return h, h

    def prefill(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the state after t more tokens (b, t, d)."""
        for input_t in self.inputs(x).unbind(dim=1):
            h = self.cell(input_t, h)
        return h
