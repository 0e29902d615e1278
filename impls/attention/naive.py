"""Attention one head at a time, every intermediate written out to memory.

    head_i = softmax(Q_i K_iᵀ / √head_dim) V_i,   MultiHead(x) = Concat(head_1 … head_h) W_o

Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2. Each head has its own
three projections; its n × n scores are materialised, and freed before the next head's.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

from impls.attention.parameters import AttentionParameters


class NaiveAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        heads = [self.head(x, i) for i in range(self.num_heads)]  # h times (b, n, head_dim)
        return self.out_proj(torch.cat(heads, dim=-1))  # (b, n, d)

    def head(self, x: Tensor, i: int) -> Tensor:
        """Head i alone: (b, n, d) -> (b, n, head_dim)."""
        w_q, w_k, w_v = self.in_proj_weight.chunk(3)  # (d, d) each
        b_q, b_k, b_v = self.in_proj_bias.chunk(3)  # (d,) each
        rows = slice(i * self.head_dim, (i + 1) * self.head_dim)
        q = linear(x, w_q[rows], b_q[rows])  # (b, n, head_dim)
        k = linear(x, w_k[rows], b_k[rows])  # (b, n, head_dim)
        v = linear(x, w_v[rows], b_v[rows])  # (b, n, head_dim)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, n, n)
        return torch.softmax(scores, dim=-1) @ v  # (b, n, head_dim)
