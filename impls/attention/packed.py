"""Attention with all heads in one matrix product: the heads become a batch axis by reshape.

    softmax(Q Kᵀ / √head_dim) V   over (b, h, n, head_dim)

Vaswani et al. 2017, section 3.2.2: the split into heads is logical, a view of one projection. What
this rung buys over `naive` is fewer, larger products; what it costs is the scores of all heads alive
at once, h·n².
"""

import torch
from torch import Tensor

from impls.attention.layer import Attention


class PackedAttention(Attention):
    """(b, n, d) -> (b, n, d)."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """All heads at once: (b, h, n, head_dim) of keys and values (b, h, m, head_dim)."""
        return weighted_sum(q @ k.transpose(-2, -1) / self.head_dim**0.5, v, attn_mask)  # (b, h, n, head_dim)


def weighted_sum(scores: Tensor, v: Tensor, attn_mask: Tensor | None) -> Tensor:
    """softmax(scores) V: (b, h, n, head_dim) of scores (b, h, n, m) and values (b, h, m, head_dim).

    The caller must not keep the scores: masked, they are a second h·n², and the first is then let go.
    """
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, float("-inf"))
    return torch.softmax(scores, dim=-1) @ v  # (b, h, n, head_dim)
