"""The weights shared by the Elman, GRU and LSTM layers: one input product and one recurrent product for every gate.

Names and shapes are those of `torch.nn.RNN`, `nn.GRU` and `nn.LSTM` with one layer, so that each can load the other's
`state_dict`. As in torch, the weights are drawn from U(−1/√d, 1/√d).
"""

import torch
from torch import nn


class RecurrentParameters(nn.Module):
    """W_x and W_h of all gates stacked as `weight_ih_l0` and `weight_hh_l0` (gates · d, d), each with a bias.

    No layer of the family has heads; `num_heads` is accepted but unused.
    """

    causal = True
    gates = 1

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        rows, bound = self.gates * d_model, d_model**-0.5
        self.weight_ih_l0 = nn.Parameter(torch.empty(rows, d_model).uniform_(-bound, bound))
        self.weight_hh_l0 = nn.Parameter(torch.empty(rows, d_model).uniform_(-bound, bound))
        self.bias_ih_l0 = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))
        self.bias_hh_l0 = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))
