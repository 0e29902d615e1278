"""Sliding window with global tokens: every token sees its neighbours and a few tokens that see, and are seen by, all.

    head = softmax(Q Kᵀ / √head_dim) V   over the pairs with |i − j| ≤ r, i < g or j < g

Beltagy et al. 2020, "Longformer", arXiv:2004.05150, section 3.1. The paper gives the global tokens projections of their
own. Here, all tokens share their projections, as in Zaheer et al. 2020, "Big Bird", section 2.
"""

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from impls.attention.reference import AttentionReference
from impls.attention.window import RingCache, WindowAttention, attend_blocks


def attend_rows(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
    """Return the heads of the first g queries over all keys, (b, h, g, head_dim). `hidden` is (…, g, n).

    If there are fewer than g tokens, the missing queries are zeros.
    """
    q = pad(q, (0, 0, 0, hidden.shape[-2]))[:, :, : hidden.shape[-2]]
    scores = (q / q.shape[-1] ** 0.5) @ k.mT  # (b, h, g, n)
    lowest = torch.finfo(scores.dtype).min  # instead of −∞: a query may see no key
    return torch.softmax(scores.masked_fill_(hidden, lowest), dim=-1) @ v


def hidden_rows(n: int, g: int, attn_mask: Tensor | None, is_causal: bool, device: torch.device) -> Tensor:
    """Return (…, g, n): which keys the first g queries may not see."""
    i, j = torch.arange(g, device=device)[:, None], torch.arange(n, device=device)
    seen = (j <= i) | ~torch.tensor(is_causal, device=device) | (i >= n)
    if attn_mask is not None:
        seen = seen & (attn_mask.expand(-1, -1, n, n)[:, :, i[:, 0].clamp(max=n - 1)] | (i == j))
    return ~seen


class GlobalCache(NamedTuple):
    """Keys and values of the g global tokens, (b, h, g, head_dim) each, and the window of all others, for decoding."""

    keys: Tensor
    values: Tensor
    window: RingCache


class GlobalWindowAttention(WindowAttention):
    """(b, n, d) -> (b, n, d). The first `global_tokens` tokens are global, g in formulas, and r = `reach`.

    Advantage over `WindowAttention`: any two tokens are connected in two layers, through a global token, not in n/r.
    The work is still linear in n: g more keys for each query, and g queries over all keys.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"reach": ("r", 32), "global_tokens": ("k", 16)}

    def __init__(self, d_model: int, num_heads: int, reach: int = 32, global_tokens: int = 16) -> None:
        super().__init__(d_model, num_heads, reach)
        self.global_tokens = global_tokens

    def prepare(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> dict[str, Tensor]:
        """Return `hidden` (…, c, r, s + g), with the global keys last, and `hidden_rows` (…, g, n)."""
        n, r, g = x.shape[1], self.reach, self.global_tokens
        hidden = super().prepare(x, attn_mask, is_causal)["hidden"]  # (…, c, r, s)
        c, _, s = hidden.shape[-3:]
        i = torch.arange(c * r, device=x.device).view(-1, r, 1)  # (c, r, 1) queries
        in_window = i[:, :1] - r + torch.arange(s, device=x.device)  # (c, 1, s) keys
        j = torch.arange(g, device=x.device)
        seen = (j < n) & ((j <= i) | ~torch.tensor(is_causal, device=x.device))  # (c, r, g)
        if attn_mask is not None:
            of_pairs = attn_mask.expand(-1, -1, n, n)
            seen = seen & (of_pairs[:, :, i.clamp(max=n - 1), j.clamp(max=n - 1)] | (i == j))  # (b, h, c, r, g)
        return {
            "hidden": torch.cat([hidden | (in_window < g), ~seen], dim=-1),
            "hidden_rows": hidden_rows(n, g, attn_mask, is_causal, x.device),
        }

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        hidden: Tensor | None = None,
        hidden_rows: Tensor | None = None,
    ) -> Tensor:
        if hidden is None or hidden_rows is None:
            prepared: dict[str, Any] = self.prepare(x, attn_mask, is_causal)
            return self.forward(x, **prepared)
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        local = attend_blocks(q, self.keys_of_blocks(k, hidden), self.keys_of_blocks(v, hidden), hidden)
        of_all = attend_rows(q, k, v, hidden_rows)  # (b, h, g, head_dim)
        return self.merge(torch.cat([of_all[:, :, : x.shape[1]], local[:, :, self.global_tokens :]], dim=2))

    def keys_of_blocks(self, heads: Tensor, hidden: Tensor) -> Tensor:
        """Return the keys or values of each block: (b, h, n, head_dim) -> (b, h, c, s + g, head_dim)."""
        g = self.global_tokens
        near = self.neighbours(heads, hidden[..., :-g])  # (b, h, c, s, head_dim)
        of_all = pad(heads, (0, 0, 0, g))[:, :, None, :g].expand(-1, -1, near.shape[2], -1, -1)
        return torch.cat([near, of_all], dim=3)

    def start(self, batch_size: int, seq_len: int) -> GlobalCache:  # type: ignore[override]
        """Return an empty cache, whose size does not depend on `seq_len`."""
        room = (batch_size, self.num_heads, self.global_tokens, self.head_dim)
        weight = self.in_proj_weight
        return GlobalCache(weight.new_zeros(room), weight.new_zeros(room), super().start(batch_size, seq_len))

    def step(self, x_t: Tensor, cache: GlobalCache) -> tuple[Tensor, GlobalCache]:  # type: ignore[override]
        """Process one more token: (b, d) -> (b, d). Every step reads all slots."""
        q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
        cache = self.appended(k, v, cache)
        filled = torch.arange(self.global_tokens, device=x_t.device) < cache.window.length
        hidden = torch.cat([cache.window.empty, ~filled])
        keys, values = torch.cat([cache.window.keys, cache.keys], 2), torch.cat([cache.window.values, cache.values], 2)
        scores = (q @ keys.mT / self.head_dim**0.5).masked_fill_(hidden, float("-inf"))  # (b, h, 1, r + 1 + g)
        return self.merge(torch.softmax(scores, dim=-1) @ values)[:, 0], cache

    def prefill(self, x: Tensor, cache: GlobalCache) -> GlobalCache:  # type: ignore[override]
        """Add t tokens (b, t, d) to the cache at once."""
        return self.appended(*self.keys_and_values(x), cache)

    def appended(self, k: Tensor, v: Tensor, cache: GlobalCache) -> GlobalCache:
        """Return the cache with t more tokens, (b, h, t, head_dim) each. A global token takes no slot of the window."""
        at, window = cache.window.length, cache.window
        first = min(max(self.global_tokens - at, 0), k.shape[2])  # tokens that are global
        if first:
            cache.keys[:, :, at : at + first], cache.values[:, :, at : at + first] = k[:, :, :first], v[:, :, :first]
        last = max(first, k.shape[2] - self.reach - 1)
        window = window.skip(last)
        if last < k.shape[2]:
            window = window.append(k[:, :, last:], v[:, :, last:])
        return cache._replace(window=window)


class GlobalWindowReference(AttentionReference):
    """Reference of the window with global tokens: full attention that hides all other pairs. (b, n, d) -> (b, n, d)."""

    def __init__(self, d_model: int, num_heads: int, reach: int = 32, global_tokens: int = 16) -> None:
        super().__init__(d_model, num_heads)
        self.reach, self.global_tokens = reach, global_tokens

    def forward(  # type: ignore[override]
        self, x: Tensor, attn_mask: Tensor | None = None, rows: Tensor | None = None
    ) -> Tensor:
        j = torch.arange(x.shape[1], device=x.device)
        i = (j if rows is None else rows)[:, None]
        pairs = ((i - j).abs() <= self.reach) | (torch.minimum(i, j) < self.global_tokens)  # (r, n)
        return super().forward(x, of_pairs(pairs, i == j, attn_mask, x.shape[0]), rows=rows)


def of_pairs(pairs: Tensor, itself: Tensor, attn_mask: Tensor | None, batch_size: int) -> Tensor:
    """Return the mask (b, 1 or h, r, n) of the `pairs` (r, n) that `attn_mask` leaves.

    `itself` (r, n) marks a token's pair with itself, which is always kept.
    """
    left = pairs[None, None] if attn_mask is None else pairs & (attn_mask | itself)
    return left.expand(batch_size, -1, -1, -1)
