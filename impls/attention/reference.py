"""Reference for attention, written out position by position: every softmax attention layer is checked against it.

    y_i = W_o Concat_h( Σ_j a_ij v_j ),   a_ij = exp(q_i·k_j / √head_dim) / Σ_j' exp(q_i·k_j' / √head_dim)

Vaswani et al. 2017, equation 1 and section 3.2.2. The sums run over the keys that i may see. Written for float64 and
small n, not for speed.
"""

import torch
from torch import Tensor

from impls.attention.parameters import AttentionParameters


class AttentionReference(AttentionParameters):
    """(b, n, d) -> (b, n, d)."""

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
        w_o = self.out_proj.weight.view(d, self.num_heads, head_dim)  # (d, h, head_dim)
        return torch.einsum("bhie,dhe->bid", attended(q, k, v, attn_mask), w_o) + self.out_proj.bias  # (b, n, d)


def attended(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Return Σ_j a_ij v_j of each head (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
    logits = torch.einsum("bhie,bhje->bhij", q, k) / q.shape[-1] ** 0.5  # (b, h, n, m)
    if attn_mask is not None:
        logits = torch.where(attn_mask, logits, -torch.inf)
    weights = (logits - logits.logsumexp(-1, keepdim=True)).exp()  # (b, h, n, m), rows sum to 1
    return torch.einsum("bhij,bhje->bhie", weights, v)  # (b, h, n, head_dim)
