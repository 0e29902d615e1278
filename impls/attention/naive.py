"""Attention one head at a time, with every intermediate result written to memory.

    head_i = softmax(Q_i K_iᵀ / √head_dim) V_i,   MultiHead(x) = Concat(head_1 … head_h) W_o

Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2. Each head has its own three projections. Its
n × n scores are materialised, and freed before those of the next head.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

from impls.attention.layer import Attention


class NaiveAttention(Attention):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        source = x if source is None else source  # (b, m, d)
        heads = [self.head(x, source, i, attn_mask) for i in range(self.num_heads)]  # h times (b, n, head_dim)
        return self.out_proj(torch.cat(heads, dim=-1))  # (b, n, d)

    def head(self, x: Tensor, source: Tensor, i: int, attn_mask: Tensor | None) -> Tensor:
        """Return head i only: (b, n, d) -> (b, n, head_dim)."""
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)  # (d, d) each
        b_q, b_k, b_v = self.in_proj_bias.chunk(3)  # (d,) each
        rows = slice(i * self.head_dim, (i + 1) * self.head_dim)
        q = linear(x, w_q[rows], b_q[rows])  # (b, n, head_dim)
        k = linear(source, w_k[rows], b_k[rows])  # (b, m, head_dim)
        v = linear(source, w_v[rows], b_v[rows])  # (b, m, head_dim)
        return one_head(q, k, v, of_head(attn_mask, i))  # (b, n, head_dim)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return the heads (b, h, n, head_dim), computed one after another from keys and values (b, h, m, head_dim)."""
        heads = [one_head(q[:, i], k[:, i], v[:, i], of_head(attn_mask, i)) for i in range(self.num_heads)]
        return torch.stack(heads, dim=1)  # (b, h, n, head_dim)


def of_head(attn_mask: Tensor | None, i: int) -> Tensor | None:
    """Return head i's mask (b, n, m) from a mask (b, h, n, m), or from (b, 1, n, m) shared by all heads."""
    return None if attn_mask is None else attn_mask[:, i if attn_mask.shape[1] > 1 else 0]


def one_head(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None) -> Tensor:
    """Return softmax(Q Kᵀ / √head_dim) V: (b, n, head_dim).

    Keys and values are (b, m, head_dim), the mask (b, n, m).
    """
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (b, n, m)
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, float("-inf"))
    return torch.softmax(scores, dim=-1) @ v  # (b, n, head_dim)
