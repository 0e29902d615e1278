"""Reference for linear attention, written out pair by pair: every form is checked against it.

    y_i = W_o Concat_h( Σ_j s_ij v_j / Σ_j s_ij ),   s_ij = φ(q_i)·φ(k_j),   φ(x) = x + 1 for x > 0, else exp(x)

Katharopoulos et al. 2020, equations 4 and 7. The sums run over the keys that i may see. Written for float64 and small
n, not for speed.
"""

from typing import ClassVar

import torch
from torch import Tensor

from impls.attention.parameters import AttentionParameters


class LinearAttentionReference(AttentionParameters):
    """(b, n, d) -> (b, n, d)."""

    causal: ClassVar[bool] = False

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        source: Tensor | None = None,
    ) -> Tensor:
        source = x if source is None else source  # (b, m, d)
        d, head_dim = x.shape[-1], self.head_dim
        w_q, w_k, w_v = self.in_proj_weight.view(3, self.num_heads, head_dim, d)  # (h, head_dim, d) each
        b_q, b_k, b_v = self.in_proj_bias.view(3, 1, self.num_heads, 1, head_dim)  # (1, h, 1, head_dim) each
        q = torch.einsum("bnd,hed->bhne", x, w_q) + b_q  # (b, h, n, head_dim)
        k = torch.einsum("bmd,hed->bhme", source, w_k) + b_k  # (b, h, m, head_dim)
        v = torch.einsum("bmd,hed->bhme", source, w_v) + b_v  # (b, h, m, head_dim)
        similar = torch.einsum("bhie,bhje->bhij", _features(q), _features(k))  # (b, h, n, m)
        if attn_mask is not None:
            similar = torch.where(attn_mask, similar, 0.0)
        if self.causal:
            place = torch.arange(x.shape[1], device=x.device)
            similar = torch.where(place <= place[:, None], similar, 0.0)
        weights = similar / similar.sum(-1, keepdim=True)  # (b, h, n, m), rows sum to 1
        w_o = self.out_proj.weight.view(d, self.num_heads, head_dim)  # (d, h, head_dim)
        heads = torch.einsum("bhij,bhje->bhie", weights, v)  # (b, h, n, head_dim)
        return torch.einsum("bhie,dhe->bid", heads, w_o) + self.out_proj.bias  # (b, n, d)


class CausalLinearAttentionReference(LinearAttentionReference):
    """The same, with no token seeing a later one."""

    causal = True


def _features(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())
