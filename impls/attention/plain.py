"""Attention in plain matrix products, and the weights, KV cache and decoding that the attention layers share.

    MultiHead(x) = Concat(head_1 … head_h) W_o,   head_i = softmax(Q_i K_iᵀ / √head_dim) V_i

Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class KVCache(NamedTuple):
    """The keys and values of all tokens so far, in preallocated memory, for step-by-step decoding.

    `keys` and `values` are (b, h, n, head_dim), with the first `length` tokens filled. `is_source`: keys and values
    belong to a source (cross-attention). All slots are then filled, and no token is added.

    Shazeer 2019, "Fast Transformer Decoding: One Write-Head is All You Need", section 2.2 (incremental attention).
    """

    keys: Tensor
    values: Tensor
    length: int
    is_source: bool = False

    def append(self, k: Tensor, v: Tensor) -> "KVCache":
        """Return a cache with t more tokens, (b, h, t, head_dim) each, in the same memory.

        The old cache keeps its own `length`, so one cache can be continued twice. The later continuation then
        overwrites the tokens of the earlier one.
        """
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        return self._replace(length=end)

    def present(self) -> tuple[Tensor, Tensor]:
        """Return keys and values of the filled slots as views: (b, h, length, head_dim) each."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


def head_dim_of(d_model: int, num_heads: int) -> int:
    """Return d/h, the width of a head. Raises ValueError if `num_heads` does not divide `d_model`."""
    if d_model % num_heads:
        raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
    return d_model // num_heads


def split(side_by_side: Tensor, count: int, num_heads: int) -> tuple[Tensor, ...]:
    """Split `count` matrices side by side into heads, as views: (b, n, count · d) -> (b, h, n, head_dim) for each."""
    b, n, width = side_by_side.shape
    heads = side_by_side.view(b, n, count, num_heads, width // (count * num_heads))
    return heads.permute(2, 0, 3, 1, 4).unbind(0)  # (b, h, n, head_dim) each


def concatenated(heads: Tensor) -> Tensor:
    """Return Concat(head_1 … head_h), as a view if the memory layout allows: (b, h, n, head_dim) -> (b, n, d)."""
    return heads.transpose(1, 2).flatten(2)


class AttentionParameters(nn.Module):
    """W_q, W_k, W_v stacked as `in_proj_weight` (3d, d), and W_o as `out_proj` (d, d), with biases.

    All attention layers have these weights, so that each can load another's `state_dict`. Names and shapes are those of
    `torch.nn.MultiheadAttention`, whose weights load as well. Head i owns rows [i·head_dim, (i+1)·head_dim) of each of
    W_q, W_k and W_v, and the same columns of W_o. Raises ValueError if `num_heads` does not divide `d_model`.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = self.num_kv_heads = num_heads
        self.head_dim = head_dim_of(d_model, num_heads)
        self.in_proj_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * d_model))
        self.out_proj = nn.Linear(d_model, d_model)
        nn.init.xavier_uniform_(self.in_proj_weight)
        # Not zero: a layer that drops a bias must fail verification.
        nn.init.normal_(self.in_proj_bias, std=0.02)
        nn.init.normal_(self.out_proj.bias, std=0.02)

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q, K and V of all heads: (b, n, d) -> (b, h, n, head_dim) each, in one matrix product.

        With a `source` (b, m, d), K and V are computed from the source: (b, h, m, head_dim) each, in a second product.
        """
        if source is None:
            q, k, v = self._heads(x, self.in_proj_weight, self.in_proj_bias)
            return q, k, v
        return self.queries(x), *self.keys_and_values(source)

    def queries(self, x: Tensor) -> Tensor:
        """Return Q only: (b, n, d) -> (b, h, n, head_dim)."""
        rows = slice(0, x.shape[-1])
        (q,) = self._heads(x, self.in_proj_weight[rows], self.in_proj_bias[rows])
        return q

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and V only: (b, m, d) -> (b, h, m, head_dim) each."""
        rows = slice(source.shape[-1], None)
        k, v = self._heads(source, self.in_proj_weight[rows], self.in_proj_bias[rows])
        return k, v

    def _heads(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Apply the matrices stacked in `weight` in one product: (b, n, d) -> (b, h, n, head_dim) for each matrix."""
        stacked = nn.functional.linear(x, weight, bias)  # (b, n, matrices · d)
        return split(stacked, weight.shape[0] // x.shape[-1], self.num_heads)  # (b, h, n, head_dim) each

    def merge(self, heads: Tensor) -> Tensor:
        """Concatenate the heads and apply W_o: (b, h, n, head_dim) -> (b, n, d)."""
        # Calling the module instead would look for hooks and cost some microseconds of a short call.
        return nn.functional.linear(concatenated(heads), self.out_proj.weight, self.out_proj.bias)  # (b, n, d)


class GroupedQueryParameters(AttentionParameters):
    """The same with g = `num_kv_heads` heads of keys and values: W_q (d, d), W_k and W_v (g · head_dim, d), and W_o.

    Each group of h/g query heads shares one head of keys and values: query head i uses head i // (h/g). With g = h, the
    default, this is multi-head attention. Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer
    Models from Multi-Head Checkpoints", section 2.2. Raises ValueError if `num_kv_heads` does not divide `num_heads`.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int = 0) -> None:
        super().__init__(d_model, num_heads)
        self.num_kv_heads = num_kv_heads or num_heads
        if num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads={num_heads} is not divisible by num_kv_heads={num_kv_heads}")
        if self.num_kv_heads < num_heads:
            rows = (num_heads + 2 * self.num_kv_heads) * self.head_dim
            self.in_proj_weight = nn.Parameter(self.in_proj_weight.detach()[:rows].clone())
            self.in_proj_bias = nn.Parameter(self.in_proj_bias.detach()[:rows].clone())

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q (b, h, n, head_dim), and K and V (b, g, n, head_dim) each, in one matrix product.

        With a `source` (b, m, d), K and V are computed from the source: (b, g, m, head_dim) each.
        """
        if source is not None or self.num_kv_heads == self.num_heads:
            return super().project(x, source)
        heads = self._split(x, self.in_proj_weight, self.in_proj_bias)  # (b, h + 2g, n, head_dim)
        q, k, v = heads.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), dim=1)
        return q, k, v

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and V only: (b, m, d) -> (b, g, m, head_dim) each."""
        if self.num_kv_heads == self.num_heads:
            return super().keys_and_values(source)
        rows = slice(source.shape[-1], None)
        k, v = self._split(source, self.in_proj_weight[rows], self.in_proj_bias[rows]).chunk(2, dim=1)
        return k, v

    def _split(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Compute all heads in one product: (b, n, d) -> (b, heads, n, head_dim)."""
        stacked = nn.functional.linear(x, weight, bias)  # (b, n, heads · head_dim)
        return stacked.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (b, heads, n, head_dim)


class Attention(AttentionParameters):
    """Base of the softmax attention layers: a forward pass (b, n, d) -> (b, n, d) and decoding, both built on `attend`.

    Each layer defines its own `attend`. `attn_mask` is broadcastable to (b, h, n, m) and True where a query may see a
    key. With a `source` (b, m, d), keys and values are computed from the source, and queries from x.
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
        room = (batch_size, self.num_kv_heads, seq_len, self.head_dim)
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
        k = k.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)  # (b, h, n, head_dim)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, h, n, n)
        scores = only_seen(scores, attn_mask)
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


class NaiveAttention(Attention):
    """Attention one head at a time, with every intermediate result written to memory: (b, n, d) -> (b, n, d).

    Each head has its own three projections. Its n × n scores are materialised, and freed before those of the next head.
    """

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


def only_seen(scores: Tensor, attn_mask: Tensor | None) -> Tensor:
    """Return the scores (…, n, m), with the lowest number where a query may not see a key.

    With −∞, a query that sees no key, as in an empty sequence, would have the weights 0/0. Now it has equal ones.
    """
    return scores if attn_mask is None else torch.where(attn_mask, scores, torch.finfo(scores.dtype).min)


def one_head(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None) -> Tensor:
    """Return softmax(Q Kᵀ / √head_dim) V: (b, n, head_dim).

    Keys and values are (b, m, head_dim), the mask (b, n, m).
    """
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (b, n, m)
    scores = only_seen(scores, attn_mask)
    return torch.softmax(scores, dim=-1) @ v  # (b, n, head_dim)


class PackedAttention(Attention):
    """Attention with all heads in one matrix product: (b, n, d) -> (b, n, d).

        softmax(Q Kᵀ / √head_dim) V   over (b, h, n, head_dim)

    A reshape turns the heads into a batch axis. Vaswani et al. 2017, section 3.2.2: the split into heads is logical, a
    view of one projection. Advantage over `NaiveAttention`: fewer and larger products. Drawback: the scores of all
    heads, h·n², are alive at once.
    """

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return all heads at once (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        return weighted_sum(q @ k.transpose(-2, -1) / self.head_dim**0.5, v, attn_mask)  # (b, h, n, head_dim)


def weighted_sum(scores: Tensor, v: Tensor, attn_mask: Tensor | None) -> Tensor:
    """Return softmax(scores) V: (b, h, n, head_dim) from scores (b, h, n, m) and values (b, h, m, head_dim).

    The caller must not keep a reference to the scores. Masking creates a second h·n² matrix, and the first is freed
    only if nothing refers to it.
    """
    scores = only_seen(scores, attn_mask)
    return torch.softmax(scores, dim=-1) @ v  # (b, h, n, head_dim)


class SingleHeadAttention(Attention):
    """Attention with one head, as the paper introduces it before multi-head attention: (b, n, d) -> (b, n, d).

        Attention(Q, K, V) = softmax(Q Kᵀ / √d) V

    Vaswani et al. 2017, section 3.2.1, equation 1. Every other layer computes this in each of its heads. The n × n
    scores are written to memory. `num_heads` is accepted but unused: the parameters are those of one head.
    """

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, num_heads=1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return the head (b, 1, n, d), given keys and values (b, 1, m, d)."""
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (b, 1, n, m)
        scores = only_seen(scores, attn_mask)
        return torch.softmax(scores, dim=-1) @ v  # (b, 1, n, d)
