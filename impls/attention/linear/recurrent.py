"""Causal linear attention as the recurrence that it is, its loop over time written in Python.

    S_t = S_{t-1} + φ(k_t) v_tᵀ,   z_t = z_{t-1} + φ(k_t),   y_t = φ(q_t)ᵀ S_t / φ(q_t)·z_t

Katharopoulos et al. 2020, section 3.4. Backward never keeps the n states, nd²/h words, but makes them again (section
3.3.1, equations 13 to 15). With p_t = φ(q_t)ᵀ S_t = Σ_{j ≤ t} (φ(q_t)·φ(k_j)) v_j and g_t its gradient,

    ∂φ(q_t) = Σ_{j ≤ t} (g_t·v_j) φ(k_j),   ∂φ(k_t) = Σ_{j ≥ t} (v_t·g_j) φ(q_j),   ∂v_t = Σ_{j ≥ t} (φ(k_t)·φ(q_j)) g_j

each the same recurrence again, the last two from the end to the beginning, and with one state alive.
"""

from typing import Any

import torch
from torch import Tensor

from impls.attention.linear.layer import LinearAttention, feature_map, sums_in


class RecurrentLinearAttention(LinearAttention):
    """(b, n, d) -> (b, n, d), no token seeing a later one."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (tensor.to(sums_in(x.dtype)) for tensor in self.project(x))  # (b, h, n, head_dim) each
        q, k = feature_map(q), feature_map(k)
        total = (q * k.cumsum(-2)).sum(-1, keepdim=True)  # (b, h, n, 1), φ(q_t)·z_t
        heads = causal_product(*(tensor.flatten(0, 1) for tensor in (q, k, v)))  # (b·h, n, head_dim)
        return self.merge((heads.view_as(v) / total).to(x.dtype))  # (b, n, d)


def causal_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every Σ_{j ≤ t} (q_t·k_j) v_j of three times (b, n, e): (b, n, e)."""
    return _CausalProduct.apply(q, k, v)


class _CausalProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        s = q.new_zeros(k.shape[0], k.shape[2], v.shape[2])  # (b, e, e)
        products = []
        for q_t, k_t, v_t in zip(*(tensor.split(1, dim=1) for tensor in (q, k, v)), strict=True):  # (b, 1, e) each
            s.baddbmm_(k_t.transpose(1, 2), v_t)  # in the memory of the state before
            products.append(q_t @ s)  # (b, 1, e)
        return torch.cat(products, dim=1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        # Through `causal_product` again, so that it has a second derivative.
        grad_q = causal_product(g, v, k)
        q, k, v, g = (tensor.flip(1) for tensor in (q, k, v, g))
        return grad_q, causal_product(v, g, q).flip(1), causal_product(k, q, g).flip(1)
