"""Attention with all heads in one matrix product: a reshape turns the heads into a batch axis.

    softmax(Q Kᵀ / √head_dim) V   over (b, h, n, head_dim)

Vaswani et al. 2017, section 3.2.2: the split into heads is logical, a view of one projection. Advantage over `naive`:
fewer and larger products. The price: the scores of all heads, h·n², are alive at once.
"""

import torch
from torch import Tensor

from impls.attention.layer import Attention


class PackedAttention(Attention):
    """(b, n, d) -> (b, n, d)."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return all heads at once (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        return weighted_sum(q @ k.transpose(-2, -1) / self.head_dim**0.5, v, attn_mask)  # (b, h, n, head_dim)


def weighted_sum(scores: Tensor, v: Tensor, attn_mask: Tensor | None) -> Tensor:
    """Return softmax(scores) V: (b, h, n, head_dim) from scores (b, h, n, m) and values (b, h, m, head_dim).

    The caller must not keep a reference to the scores. Masking creates a second h·n² matrix, and the first is freed
    only if nothing refers to it.
    """
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, float("-inf"))
    return torch.softmax(scores, dim=-1) @ v  # (b, h, n, head_dim)
