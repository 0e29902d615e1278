"""Reference for grouped-query attention, written out group by group.

    y_i = W_o Concat_{g, r}( Σ_j a_ij v_gj ),   a_ij = exp(q_gri·k_gj / √head_dim) / Σ_j' exp(q_gri·k_gj' / √head_dim)

for query r of group g. Ainslie et al. 2023, section 2.2. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.attention.gqa_parameters import GroupedQueryParameters


class GroupedQueryReference(GroupedQueryParameters):
    """(b, n, d) -> (b, n, d). In comments, g is the number of groups and r the number of queries in each."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        source = x if source is None else source  # (b, m, d)
        d, g, head_dim = x.shape[-1], self.num_kv_heads, self.head_dim
        kept = (d, g * head_dim, g * head_dim)
        w_q, w_k, w_v = self.in_proj_weight.split(kept)  # (d, d), (g · head_dim, d) twice
        b_q, b_k, b_v = self.in_proj_bias.split(kept)
        q = (torch.einsum("bnd,ed->bne", x, w_q) + b_q).unflatten(-1, (g, -1, head_dim))  # (b, n, g, r, head_dim)
        k = (torch.einsum("bmd,ed->bme", source, w_k) + b_k).unflatten(-1, (g, head_dim))  # (b, m, g, head_dim)
        v = (torch.einsum("bmd,ed->bme", source, w_v) + b_v).unflatten(-1, (g, head_dim))  # (b, m, g, head_dim)
        logits = torch.einsum("bigre,bjge->bgrij", q, k) / head_dim**0.5  # (b, g, r, n, m)
        if attn_mask is not None:
            by_head = attn_mask.expand(-1, self.num_heads, -1, -1).unflatten(1, (g, -1))  # (b, g, r, n or 1, m)
            logits = torch.where(by_head, logits, -torch.inf)
        weights = (logits - logits.logsumexp(-1, keepdim=True)).exp()  # rows sum to 1
        heads = torch.einsum("bgrij,bjge->bigre", weights, v).flatten(2)  # (b, n, d)
        return torch.einsum("bid,ed->bie", heads, self.out_proj.weight) + self.out_proj.bias  # (b, n, d)
