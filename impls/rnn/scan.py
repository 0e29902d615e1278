"""Gated linear recurrence in ⌈log₂ n⌉ steps, by an explicit associative scan that doubles its reach in every step.

Hillis & Steele 1986, "Data Parallel Algorithms" (the scan); Blelloch 1990, "Prefix Sums and Their Applications",
section 1.4 (for recurrences); Martin & Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length",
section 2 (the layer).
"""

from typing import Any

import torch
from torch import Tensor, nn

from impls.rnn.minimal import DiagonalRecurrence


def linear_recurrence(a: Tensor, b: Tensor) -> Tensor:
    """Return every h_t = a_t ⊙ h_{t-1} + b_t, with h_0 = 0, from a and b: (b, n, d) -> (b, n, d)."""
    return _LinearRecurrence.apply(a, b)


def doubling_scan(a: Tensor, b: Tensor) -> Tensor:
    """Same as `linear_recurrence`, except that autograd would go back through every step of the scan.

    A stretch of steps acts like one step: it maps h to a h + b. Two consecutive stretches, (a', b') followed by (a, b),
    join to (a a', a b' + b). Each position holds a stretch that ends there, at first of length 1. Every iteration joins
    it with the stretch just before it, which doubles its length. After ⌈log₂ n⌉ iterations, all stretches reach back to
    the beginning.
    """
    n, length = b.shape[1], 1  # length of the stretches
    while length < n:
        before, late = slice(0, n - length), slice(length, n)
        # The stretches of the first `length` positions already reach back to the beginning.
        b = torch.cat([b[:, :length], torch.addcmul(b[:, late], a[:, late], b[:, before])], dim=1)  # (b, n, d)
        if 2 * length < n:
            a = torch.cat([a[:, :length], a[:, late] * a[:, before]], dim=1)  # (b, n, d)
        length *= 2
    return b


class _LinearRecurrence(torch.autograd.Function):
    """The backward pass is the same kind of recurrence, from the end to the beginning.

        g_t = ∂L/∂h_t + a_{t+1} ⊙ g_{t+1},   ∂L/∂b_t = g_t,   ∂L/∂a_t = g_t ⊙ h_{t-1}

    It needs no intermediate results of the scan. Only a and h are saved, O(nd), where autograd would save O(nd log n).
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        h = doubling_scan(a, b)  # (b, n, d)
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    def backward(ctx: Any, grad_h: Tensor) -> tuple[Tensor, Tensor]:
        a, h = ctx.saved_tensors  # (b, n, d) each
        first = torch.zeros_like(h[:, :1])  # (b, 1, d)
        a_next = torch.cat([a[:, 1:], first], dim=1)  # (b, n, d), a_{t+1}
        h_before = torch.cat([first, h[:, :-1]], dim=1)  # (b, n, d), h_{t-1}
        # Calls `linear_recurrence` again so that second derivatives exist.
        grad_b = linear_recurrence(a_next.flip(1), grad_h.flip(1)).flip(1)  # (b, n, d)
        return grad_b * h_before, grad_b


class LinearScan(DiagonalRecurrence):
    """Gated linear recurrence: (b, n, d) -> (b, n, d), every h_t. `num_heads` is accepted but unused.

        h_t = a_t ⊙ h_{t-1} + (1 − a_t) ⊙ W_v x_t,   a_t = σ(W_a x_t + b_a),   h_0 = 0

    There are two differences from minGRU. States may have either sign, because no logarithms are taken. The scan is
    visible code instead of a kernel, so that its depth of log₂ n can be read and counted.

    The matrix products are those of minGRU. The scan's own work is elementwise: n log₂ n, where a loop needs n.
    """

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.gate = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model, bias=False)

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.gate(x)  # (…, d)
        return torch.sigmoid(gate), torch.sigmoid(-gate) * self.value(x)  # 1 − σ(x) = σ(−x), without loss of digits

    def forward(self, x: Tensor) -> Tensor:
        return linear_recurrence(*self.terms(x))  # (b, n, d)
