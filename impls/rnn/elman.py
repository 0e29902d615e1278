"""Elman network with the loop over time in Python.

    h_t = tanh(W_x x_t + b_x + W_h h_{t-1} + b_h),   h_0 = 0

Elman 1990, "Finding structure in time". The input product does not depend on earlier states, so it is hoisted out of
the loop as one large matrix product. The n small products inside the loop run in sequence.
"""

import torch
from torch import Tensor, nn

from impls.rnn.parameters import RecurrentParameters


class Elman(RecurrentParameters):
    """(b, n, d) -> (b, n, d): every h_t. Parameter names are those of `torch.nn.RNN`."""

    def forward(self, x: Tensor) -> Tensor:
        inputs = nn.functional.linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (b, n, d)
        w_h = self.weight_hh_l0.t()  # (d, d)
        h = x.new_zeros(x.shape[0], x.shape[2])  # (b, d)
        states = []
        for input_t in inputs.unbind(dim=1):  # n times (b, d)
            h = torch.tanh(input_t + h @ w_h)  # (b, d)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return h_0 (b, d), the whole decoding state. Its size does not grow with the number of tokens."""
        return self.weight_hh_l0.new_zeros(batch_size, self.weight_hh_l0.shape[0])

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t and h_{t-1}."""
        from_input = nn.functional.linear(x_t, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (b, d)
        h = torch.tanh(from_input + h @ self.weight_hh_l0.t())  # (b, d)
        return h, h
