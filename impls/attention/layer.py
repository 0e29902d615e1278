"""What all softmax attention rungs have in common: a forward pass around `attend`, and decoding around the same.

    MultiHead(x) = Concat(head_1 … head_h) W_o,   head_i = attend(Q_i, K_i, V_i)

Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2. A rung says how `attend` is done.
"""

import torch
from torch import Tensor

from impls.attention.cache import KVCache
from impls.attention.parameters import AttentionParameters


class Attention(AttentionParameters):
    """(b, n, d) -> (b, n, d).

    `attn_mask`, broadcastable to (b, h, n, m), is True where a query may look at a key. With a `source` (b, m, d) keys
    and values are of the source, and the queries of x.
    """

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, attn_mask))  # (b, n, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """softmax(Q Kᵀ / √head_dim) V of each head: (b, h, n, head_dim) of keys and values (b, h, m, head_dim)."""
        raise NotImplementedError

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> KVCache:
        """An empty cache with room for `seq_len` tokens; with a source, the cache of its keys and values."""
        if source is not None:
            k, v = self.keys_and_values(source)  # (b, h, m, head_dim) each
            return KVCache(k.contiguous(), v.contiguous(), k.shape[2], is_source=True)
        room = (batch_size, self.num_heads, seq_len, self.head_dim)
        return KVCache(self.in_proj_weight.new_zeros(room), self.in_proj_weight.new_zeros(room), 0)

    def step(self, x_t: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
        """One token more, (b, d) -> (b, d): it attends to all in the cache and to itself, and none can look ahead."""
        if cache.is_source:
            q = self.queries(x_t[:, None])  # (b, h, 1, head_dim)
        else:
            q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
            cache = cache.append(k, v)
        return self.merge(self.attend(q, *cache.present()))[:, 0], cache

    def prefill(self, x: Tensor, cache: KVCache) -> KVCache:
        """Put t tokens (b, t, d) into the cache at once, without computing what comes out of them."""
        if cache.is_source:
            return cache
        k, v = self.keys_and_values(x)  # (b, h, t, head_dim) each
        return cache.append(k, v)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """softmax(Q Kᵀ / √head_dim), written out to be looked at: (b, n, d) -> (b, h, n, n), rows sum to 1."""
        q, k, _ = self.project(x)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, h, n, n)
        if attn_mask is not None:
            scores = torch.where(attn_mask, scores, float("-inf"))
        return torch.softmax(scores, dim=-1)


class ToldAttention(Attention):
    """The same of a rung that can be told of a causal mask, and then is given none."""

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, attn_mask, is_causal))  # (b, n, d)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """(b, h, n, head_dim) of keys and values (b, h, m, head_dim)."""
        raise NotImplementedError
