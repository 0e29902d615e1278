"""Long short-term memory (LSTM) with the loop over time in Python.

    i_t, f_t, o_t = σ(W_i* x_t + b_i* + W_h* h_{t-1} + b_h*)     input, forget and output gate
    g_t = tanh(W_ig x_t + b_ig + W_hg h_{t-1} + b_hg)            candidate
    c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t,   c_0 = 0                   cell
    h_t = o_t ⊙ tanh(c_t),             h_0 = 0

Hochreiter & Schmidhuber 1997, "Long Short-Term Memory", with the forget gate of Gers et al. 2000, "Learning to
Forget". Compared with the GRU, it has a second state, the cell, which no product mixes. The output gate controls how
much of the cell is shown.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

from impls.rnn.parameters import RecurrentParameters

State = tuple[Tensor, Tensor]  # h and c, (b, d) each


class LSTM(RecurrentParameters):
    """(b, n, d) -> (b, n, d): every h_t. Gates are stacked as i, f, g, o, as in `torch.nn.LSTM`."""

    gates = 4

    def forward(self, x: Tensor) -> Tensor:
        h, c = self.start(x.shape[0], x.shape[1])  # (b, d) each
        states = []
        for input_t in self.inputs(x).unbind(dim=1):  # n times (b, 4d)
            h, c = self.cell(input_t, h, c)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def inputs(self, x: Tensor) -> Tensor:
        """Return W_i x plus both biases, which do not depend on earlier states: (…, d) -> (…, 4d)."""
        return linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)

    def cell(self, input_t: Tensor, h: Tensor, c: Tensor) -> State:
        """Return h_t and c_t from the gates' inputs (b, 4d), h_{t-1} and c_{t-1} (b, d)."""
        gates = torch.addmm(input_t, h, self.weight_hh_l0.t())  # (b, 4d)
        i, f, g, o = gates.chunk(4, dim=-1)  # (b, d) each
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # (b, d)
        return torch.sigmoid(o) * torch.tanh(c), c

    def start(self, batch_size: int, seq_len: int) -> State:
        """Return h_0 and c_0 (b, d) each, the whole decoding state.

        Its size does not grow with the number of tokens.
        """
        h = self.weight_hh_l0.new_zeros(batch_size, self.weight_hh_l0.shape[1])
        return h, torch.zeros_like(h)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t, h_{t-1} and c_{t-1}."""
        h, c = self.cell(self.inputs(x_t), *state)
        return h, (h, c)

    def prefill(self, x: Tensor, state: State) -> State:
        """Return the state after t more tokens (b, t, d)."""
        for input_t in self.inputs(x).unbind(dim=1):
            state = self.cell(input_t, *state)
        return state
