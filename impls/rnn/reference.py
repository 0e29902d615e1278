"""References of the recurrent layers, computed one step at a time: every layer is checked against one of them.

They follow the formulas of the classes that they inherit from literally. No product is hoisted, no gates are stacked,
and nothing is in log space. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor, nn

from impls.rnn.gated import GRU, LSTM, Elman, RecurrentParameters
from impls.rnn.minimal import MinGRU, MinLSTM
from impls.rnn.scan import LinearScan


class ElmanReference(Elman):
    """Reference of every Elman layer: (b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            from_input = x[:, t] @ self.weight_ih_l0.T + self.bias_ih_l0  # (b, d)
            from_state = h @ self.weight_hh_l0.T + self.bias_hh_l0  # (b, d)
            h = torch.tanh(from_input + from_state)  # (b, d)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)


def _products(layer: RecurrentParameters, x_t: Tensor, h: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return `(W_i x_t + b_i, W_h h + b_h)` for each gate, (b, d) each."""
    d = x_t.shape[-1]
    w_x, w_h = layer.weight_ih_l0.view(-1, d, d), layer.weight_hh_l0.view(-1, d, d)  # (gates, d, d) each
    b_x, b_h = layer.bias_ih_l0.view(-1, d), layer.bias_hh_l0.view(-1, d)  # (gates, d) each
    return [(x_t @ w_x[i].T + b_x[i], h @ w_h[i].T + b_h[i]) for i in range(layer.gates)]


def _sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


class GRUReference(GRU):
    """Reference of the GRU layers, computed one gate at a time: (b, n, d) -> (b, n, d)."""

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
    """Reference of the LSTM layers, computed one gate at a time: (b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = c = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            i, f, g, o = (of_x + of_h for of_x, of_h in _products(self, x[:, t], h))  # (b, d) each
            c = _sigmoid(f) * c + _sigmoid(i) * torch.tanh(g)
            h = _sigmoid(o) * torch.tanh(c)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)


class LinearScanReference(LinearScan):
    """Reference of the gated linear recurrence: (b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            a = 1 / (1 + torch.exp(-(x[:, t] @ self.gate.weight.T) - self.gate.bias))  # (b, d)
            h = a * h + (1 - a) * (x[:, t] @ self.value.weight.T)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)


def _g(x: Tensor) -> Tensor:
    positive = (x >= 0).to(x.dtype)
    return positive * (x + 0.5) + (1 - positive) * _sigmoid(x)


def _linear(layer: nn.Linear, x_t: Tensor) -> Tensor:
    return x_t @ layer.weight.T + layer.bias  # (b, d)


class MinGRUReference(MinGRU):
    """Reference of the minGRU layers: (b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            z = _sigmoid(_linear(self.gate, x[:, t]))  # (b, d)
            h = (1 - z) * h + z * _g(_linear(self.candidate, x[:, t]))
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)


class MinLSTMReference(MinLSTM):
    """Reference of the minLSTM layers: (b, n, d) -> (b, n, d). Gates are normalised by division."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            f, i = _sigmoid(_linear(self.forget, x[:, t])), _sigmoid(_linear(self.input, x[:, t]))  # (b, d) each
            h = f / (f + i) * h + i / (f + i) * _g(_linear(self.candidate, x[:, t]))
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)
