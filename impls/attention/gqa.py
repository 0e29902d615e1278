"""Grouped-query attention: each group of query heads shares one head of keys and values.

    head_i = softmax(Q_i K_gᵀ / √head_dim) V_g,   g = i // group

Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", section
2.2.
"""

from typing import Any

import torch
from torch import Tensor, nn

from impls.attention.fused import grouped_attention
from impls.attention.plain import Attention, AttentionParameters, KVCache


class GroupedQueryParameters(AttentionParameters):
    """W_q (d, d), W_k and W_v (d/group, d), stacked as `in_proj_weight`, and W_o as `out_proj`, with biases.

    Query head i uses head i // group of keys and values. With groups of one, this is multi-head attention, and weights
    of multi-head attention load. Raises ValueError if `group` does not divide `num_heads`.
    """

    def __init__(self, d_model: int, num_heads: int, group: int = 4) -> None:
        super().__init__(d_model, num_heads)
        if num_heads % group:
            raise ValueError(f"num_heads={num_heads} is not divisible by group={group}")
        self.num_kv_heads = num_heads // group
        rows = (num_heads + 2 * self.num_kv_heads) * self.head_dim
        self.in_proj_weight = nn.Parameter(self.in_proj_weight.detach()[:rows].clone())
        self.in_proj_bias = nn.Parameter(self.in_proj_bias.detach()[:rows].clone())

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q (b, h, n, head_dim), and K and V (b, h/group, n, head_dim) each.

        With a `source` (b, m, d), K and V are computed from the source: (b, h/group, m, head_dim) each.
        """
        if source is not None:
            return self.queries(x), *self.keys_and_values(source)
        heads = self._split(x, self.in_proj_weight, self.in_proj_bias)  # (b, h + 2h/group, n, head_dim)
        q, k, v = heads.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), dim=1)
        return q, k, v

    def queries(self, x: Tensor) -> Tensor:
        """Return Q only: (b, n, d) -> (b, h, n, head_dim)."""
        rows = slice(0, x.shape[-1])
        return self._split(x, self.in_proj_weight[rows], self.in_proj_bias[rows])

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and V only: (b, m, d) -> (b, h/group, m, head_dim) each."""
        rows = slice(source.shape[-1], None)
        k, v = self._split(source, self.in_proj_weight[rows], self.in_proj_bias[rows]).chunk(2, dim=1)
        return k, v

    def _split(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Compute all heads in one product: (b, n, d) -> (b, heads, n, head_dim)."""
        stacked = nn.functional.linear(x, weight, bias)  # (b, n, heads · head_dim)
        return stacked.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (b, heads, n, head_dim)


_GROUP = 4


class GroupedQueryAttention(GroupedQueryParameters, Attention):
    """(b, n, d) -> (b, n, d), by a fused kernel or not at all.

    Advantages over `attention.fused`: the KV cache, which decoding reads for every token, is smaller by the factor
    `group`. The projections are smaller, too. Scores and weighted sums cost the same.
    """

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
