"""Grouped-query attention: each group of query heads shares one head of keys and values.

    head_i = softmax(Q_i K_gᵀ / √head_dim) V_g,   g = i // group

Ainslie et al. 2023, "GQA", section 2.2. Advantages over `fused`: the KV cache, which decoding reads for every token, is
smaller by the factor `group`. The projections are smaller, too. Scores and weighted sums cost the same.
"""

from typing import Any

import torch
from torch import Tensor

from impls.attention.cache import KVCache
from impls.attention.gqa_parameters import GroupedQueryParameters
from impls.attention.layer import Attention
from impls.attention.sdpa import grouped_attention

_GROUP = 4


class GroupedQueryAttention(GroupedQueryParameters, Attention):
    """(b, n, d) -> (b, n, d), by a fused kernel or not at all."""

    def __init__(self, d_model: int, num_heads: int, group: int = _GROUP) -> None:
        super().__init__(d_model, num_heads, group)

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        The number of heads must be divisible by the group size. CUDA's fused kernels do not support float64.
        """
        if case.num_heads % _GROUP:
            return f"num_heads={case.num_heads} is not divisible by the {_GROUP} queries that share a key and value"
        if case.device == "cuda" and case.dtype == "float64":
            return "no fused attention kernel on CUDA computes in float64"
        return None

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h/group, m, head_dim) twice
        return self.merge(self.attend(q, k, v, attn_mask, is_causal))  # (b, n, d)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Return the heads (b, h, n, head_dim), given keys and values (b, h/group, m, head_dim)."""
        return grouped_attention(q, k, v, attn_mask, is_causal)

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> KVCache:
        """Return an empty cache for `seq_len` tokens of h/group heads, or the cache of `source` if given."""
        if source is not None:
            return super().start(batch_size, seq_len, source)
        room = (batch_size, self.num_kv_heads, seq_len, self.head_dim)
        return KVCache(self.in_proj_weight.new_zeros(room), self.in_proj_weight.new_zeros(room), 0)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return softmax(Q Kᵀ / √head_dim) of each query head: (b, n, d) -> (b, h, n, n). Rows sum to 1."""
        q, k, _ = self.project(x)
        k = k.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)  # (b, h, n, head_dim)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, h, n, n)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        return torch.softmax(scores, dim=-1)
