"""Causal linear attention in its recurrent form, with the loop over time in Python.

    S_t = S_{t-1} + φ(k_t) v_tᵀ,   z_t = z_{t-1} + φ(k_t),   y_t = φ(q_t)ᵀ S_t / φ(q_t)·z_t

Katharopoulos et al. 2020, section 3.4. The backward pass does not keep the n states (nd²/h words) but recomputes them
(section 3.3.1, equations 13 to 15). With p_t = φ(q_t)ᵀ S_t = Σ_{j ≤ t} (φ(q_t)·φ(k_j)) v_j and its gradient g_t,

    ∂φ(q_t) = Σ_{j ≤ t} (g_t·v_j) φ(k_j),   ∂φ(k_t) = Σ_{j ≥ t} (v_t·g_j) φ(q_j),   ∂v_t = Σ_{j ≥ t} (φ(k_t)·φ(q_j)) g_j

Each of the three sums is the same recurrence again, with one state alive. The last two run from the end to the
beginning.
"""

from typing import Any

import torch
from torch import Tensor

from impls.attention.linear.layer import LinearAttention, feature_map, sums_in


class RecurrentLinearAttention(LinearAttention):
    """(b, n, d) -> (b, n, d). No token sees a later one."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (tensor.to(sums_in(x.dtype)) for tensor in self.project(x))  # (b, h, n, head_dim) each
        q, k = feature_map(q), feature_map(k)
        total = (q * k.cumsum(-2)).sum(-1, keepdim=True)  # (b, h, n, 1), φ(q_t)·z_t
        heads = causal_product(*(tensor.flatten(0, 1) for tensor in (q, k, v)))  # (b·h, n, head_dim)
        return self.merge((heads.view_as(v) / total).to(x.dtype))  # (b, n, d)


def causal_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return Σ_{j ≤ t} (q_t·k_j) v_j for every t: (b, n, e), from three tensors (b, n, e)."""
    return _CausalProduct.apply(q, k, v)


class _CausalProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        s = q.new_zeros(k.shape[0], k.shape[2], v.shape[2])  # (b, e, e)
        products = []
        for q_t, k_t, v_t in zip(*(tensor.split(1, dim=1) for tensor in (q, k, v)), strict=True):  # (b, 1, e) each
            s.baddbmm_(k_t.transpose(1, 2), v_t)  # overwrites the previous state
            products.append(q_t @ s)  # (b, 1, e)
        return torch.cat(products, dim=1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        # Calls `causal_product` again so that second derivatives exist.
        grad_q = causal_product(g, v, k)
        q, k, v, g = (tensor.flip(1) for tensor in (q, k, v, g))
        return grad_q, causal_product(v, g, q).flip(1), causal_product(k, q, g).flip(1)
