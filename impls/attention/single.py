"""Attention with one head, as the paper introduces it before multi-head attention.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d) V

Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation 1. Every later layer computes this in each of
its heads. The n × n scores are written to memory.
"""

import torch
from torch import Tensor

from impls.attention.layer import Attention


class SingleHeadAttention(Attention):
    """(b, n, d) -> (b, n, d). `num_heads` is accepted but unused: the parameters are those of one head."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, num_heads=1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return the head (b, 1, n, d), given keys and values (b, 1, m, d)."""
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, 1, n, m)
        if attn_mask is not None:
            scores = torch.where(attn_mask, scores, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v  # (b, 1, n, d)
