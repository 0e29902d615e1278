"""Common base of all softmax attention layers: a forward pass and decoding, both built on `attend`.

    MultiHead(x) = Concat(head_1 … head_h) W_o,   head_i = attend(Q_i, K_i, V_i)

Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2. Each layer defines its own `attend`.
"""

import torch
from torch import Tensor

from impls.attention.cache import KVCache
from impls.attention.parameters import AttentionParameters


class Attention(AttentionParameters):
    """(b, n, d) -> (b, n, d).

    `attn_mask` is broadcastable to (b, h, n, m) and True where a query may see a key. With a `source` (b, m, d), keys
    and values are computed from the source, and queries from x.
    """

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, attn_mask))  # (b, n, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return softmax(Q Kᵀ / √head_dim) V of each head: (b, h, n, head_dim).

        Keys and values are (b, h, m, head_dim).
        """
        raise NotImplementedError

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> KVCache:
        """Return an empty cache for `seq_len` tokens, or the keys and values of `source` if given."""
        if source is not None:
            k, v = self.keys_and_values(source)  # (b, h, m, head_dim) each
            return KVCache(k.contiguous(), v.contiguous(), k.shape[2], is_source=True)
        room = (batch_size, self.num_heads, seq_len, self.head_dim)
        return KVCache(self.in_proj_weight.new_zeros(room), self.in_proj_weight.new_zeros(room), 0)

    def step(self, x_t: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
        """Process one more token: (b, d) -> (b, d). The token attends to itself and to all tokens in the cache.

        The result is causal, because the cache holds no later token.
        """
        if cache.is_source:
            q = self.queries(x_t[:, None])  # (b, h, 1, head_dim)
        else:
            q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
            cache = cache.append(k, v)
        return self.merge(self.attend(q, *cache.present()))[:, 0], cache

    def prefill(self, x: Tensor, cache: KVCache) -> KVCache:
        """Add t tokens (b, t, d) to the cache at once, without computing their outputs."""
        if cache.is_source:
            return cache
        k, v = self.keys_and_values(x)  # (b, h, t, head_dim) each
        return cache.append(k, v)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return softmax(Q Kᵀ / √head_dim) for inspection: (b, n, d) -> (b, h, n, n). Rows sum to 1."""
        q, k, _ = self.project(x)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, h, n, n)
        if attn_mask is not None:
            scores = torch.where(attn_mask, scores, float("-inf"))
        return torch.softmax(scores, dim=-1)


class ToldAttention(Attention):
    """Attention that accepts `is_causal` and then needs no mask for causality."""

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, attn_mask, is_causal))  # (b, n, d)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        raise NotImplementedError
