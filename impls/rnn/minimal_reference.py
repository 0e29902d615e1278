"""References for minGRU and minLSTM, computed one step at a time: those layers are checked against them.

They follow the formulas in `mingru.py` and `minlstm.py` literally. Gates are normalised by division, nothing is in log
space, and nothing is hoisted. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor, nn

from impls.rnn.mingru import MinGRU
from impls.rnn.minlstm import MinLSTM


def _sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def _g(x: Tensor) -> Tensor:
    positive = (x >= 0).to(x.dtype)
    return positive * (x + 0.5) + (1 - positive) * _sigmoid(x)


def _linear(layer: nn.Linear, x_t: Tensor) -> Tensor:
    return torch.einsum("ed,bd->be", layer.weight, x_t) + layer.bias  # (b, d)


class MinGRUReference(MinGRU):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            z = _sigmoid(_linear(self.gate, x[:, t]))  # (b, d)
            h = (1 - z) * h + z * _g(_linear(self.candidate, x[:, t]))
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)


class MinLSTMReference(MinLSTM):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])  # (b, d)
        states = []
        for t in range(x.shape[1]):
            f, i = _sigmoid(_linear(self.forget, x[:, t])), _sigmoid(_linear(self.input, x[:, t]))  # (b, d) each
            h = f / (f + i) * h + i / (f + i) * _g(_linear(self.candidate, x[:, t]))
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)
