"""Recurrences that do not mix channels over time: the previous state enters linearly and elementwise.

    h_t = a_t ⊙ h_{t-1} + b_t,   h_0 = 0,   a_t and b_t from x_t alone

Advantage over the gated layers: no product needs h_{t-1}, so all products are hoisted out of the loop. Only one
multiply-add per channel stays inside.

The steps can also be grouped in any way: (a, b) after (a', b') is (a a', a b' + b). The parallel scans use this (Martin
& Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length", section 2).

Each layer defines a_t and b_t, and how the recurrence runs; the default is a loop in Python.
"""

import torch
from torch import Tensor, nn


class DiagonalRecurrence(nn.Module):
    """(b, n, d) -> (b, n, d): every h_t. The layer has no heads."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a and b of each token, computed from that token only: (…, d) -> (…, d) twice."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.terms(x)  # (b, n, d) each
        h = x.new_zeros(x.shape[0], x.shape[2])  # (b, d)
        states = []
        for a_t, b_t in zip(a.unbind(dim=1), b.unbind(dim=1), strict=True):  # n times (b, d) each
            h = torch.addcmul(b_t, a_t, h)  # (b, d)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return h_0 (b, d), the whole decoding state. Its size does not grow with the number of tokens."""
        return next(self.parameters()).new_zeros(batch_size, self.d_model)

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t and h_{t-1}."""
        a, b = self.terms(x_t)  # (b, d) each
        h = torch.addcmul(b, a, h)
        return h, h

    def prefill(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the state after t more tokens (b, t, d)."""
        a, b = self.terms(x)  # (b, t, d) each
        for a_t, b_t in zip(a.unbind(dim=1), b.unbind(dim=1), strict=True):
            h = torch.addcmul(b_t, a_t, h)
        return h
