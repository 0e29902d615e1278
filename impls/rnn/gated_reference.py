"""References for GRU and LSTM, computed one gate and one step at a time: those layers are checked against them.

They follow the formulas in `gru.py` and `lstm.py` literally, with no product hoisted and no gates stacked. Written for
float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.rnn.gru import GRU
from impls.rnn.lstm import LSTM
from impls.rnn.parameters import RecurrentParameters


def _products(layer: RecurrentParameters, x_t: Tensor, h: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return `(W_i x_t + b_i, W_h h + b_h)` for each gate, (b, d) each."""
    d = x_t.shape[-1]
    w_x, w_h = layer.weight_ih_l0.view(-1, d, d), layer.weight_hh_l0.view(-1, d, d)  # (gates, d, d) each
    b_x, b_h = layer.bias_ih_l0.view(-1, d), layer.bias_hh_l0.view(-1, d)  # (gates, d) each
    return [
        (torch.einsum("ed,bd->be", w_x[i], x_t) + b_x[i], torch.einsum("ed,bd->be", w_h[i], h) + b_h[i])
        for i in range(layer.gates)
    ]


def _sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


class GRUReference(GRU):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            (r_x, r_h), (z_x, z_h), (c_x, c_h) = _products(self, x[:, t], h)  # (b, d) each
            r, z = _sigmoid(r_x + r_h), _sigmoid(z_x + z_h)
            h = (1 - z) * torch.tanh(c_x + r * c_h) + z * h
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)


class LSTMReference(LSTM):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = c = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            i, f, g, o = (of_x + of_h for of_x, of_h in _products(self, x[:, t], h))  # (b, d) each
            c = _sigmoid(f) * c + _sigmoid(i) * torch.tanh(g)
            h = _sigmoid(o) * torch.tanh(c)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)
