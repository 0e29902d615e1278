"""h_t = a_t ⊙ h_{t-1} + b_t for all t at once, by doubling; h_0 = 0.

A stretch of steps acts like one step: it maps h to a h + b. Two consecutive stretches, (a', b') followed by (a, b),
join to (a a', a b' + b). Each position holds a stretch that ends there, at first of length 1. Every iteration joins it
with the stretch just before it, which doubles its length. After ⌈log₂ n⌉ iterations, all stretches reach back to the
beginning.

Hillis & Steele 1986, "Data Parallel Algorithms" (the scan); Blelloch 1990, "Prefix Sums and Their Applications",
section 1.4 (for recurrences). The backward pass is the same kind of recurrence, from the end to the beginning:

    g_t = ∂L/∂h_t + a_{t+1} ⊙ g_{t+1},   ∂L/∂b_t = g_t,   ∂L/∂a_t = g_t ⊙ h_{t-1}

It needs no intermediate results of the scan. Only a and h are saved, O(nd), where autograd would save O(nd log n).
"""

from typing import Any

import torch
from torch import Tensor


def linear_recurrence(a: Tensor, b: Tensor) -> Tensor:
    """Return every h_t from a and b: (b, n, d) -> (b, n, d)."""
    return _LinearRecurrence.apply(a, b)


def doubling_scan(a: Tensor, b: Tensor) -> Tensor:
    """Same as `linear_recurrence`, except that autograd would go back through every step of the scan."""
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
