"""Attention with all heads in one matrix product: the heads become a batch axis by reshape.

    softmax(Q Kᵀ / √head_dim) V   over (b, h, n, head_dim)

Vaswani et al. 2017, section 3.2.2: the split into heads is logical, a view of one projection. What
this rung buys over `naive` is fewer, larger products; what it costs is the scores of all heads alive
at once, h·n².
"""

import torch
from torch import Tensor

from impls.attention.parameters import AttentionParameters


class PackedAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, h, n, n)
        return self.merge(torch.softmax(scores, dim=-1) @ v)  # (b, n, d)
