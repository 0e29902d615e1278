"""The Elman network, its loop over time written in Python.

    h_t = tanh(W_x x_t + b_x + W_h h_{t-1} + b_h),   h_0 = 0

Elman 1990, "Finding structure in time". The input product does not depend on the past, so it is
hoisted out of the loop as one large matrix product; what stays inside is n small ones, in sequence.
"""

import torch
from torch import Tensor, nn


class Elman(nn.Module):
    """(b, n, d) -> (b, n, d): every h_t. It has no heads; `num_heads` is accepted and not used.

    The parameters carry the names of `torch.nn.RNN`, so that each loads the other's `state_dict`.
    """

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        bound = d_model**-0.5
        self.weight_ih_l0 = nn.Parameter(torch.empty(d_model, d_model).uniform_(-bound, bound))
        self.weight_hh_l0 = nn.Parameter(torch.empty(d_model, d_model).uniform_(-bound, bound))
        self.bias_ih_l0 = nn.Parameter(torch.empty(d_model).uniform_(-bound, bound))
        self.bias_hh_l0 = nn.Parameter(torch.empty(d_model).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        inputs = nn.functional.linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (b, n, d)
        w_h = self.weight_hh_l0.t()  # (d, d)
        h = x.new_zeros(x.shape[0], x.shape[2])  # (b, d)
        states = []
        for input_t in inputs.unbind(dim=1):  # n times (b, d)
            h = torch.tanh(input_t + h @ w_h)  # (b, d)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)
