"""Restricted self-attention: a token sees those within a fixed distance r, whatever the length.

    head = softmax(Q Kᵀ / √head_dim) V   over the pairs with |i − j| ≤ r

Vaswani et al. 2017, "Attention Is All You Need", section 4 and table 1, row 4: work r·n·d in place of n²·d, and a way
between two positions n/r layers long. In blocks of r queries, each against its own block of keys and the neighbours on
either side (under a causal mask: the one before), no n × n scores come to be.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from impls.attention.parameters import AttentionParameters
from impls.attention.window_cache import RingCache


class WindowAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d). In comments c is the number of blocks, r = `reach`, s the keys of a block: 3r or 2r.

    A token always sees itself, padding too, so that no row is without keys.
    """

    def __init__(self, d_model: int, num_heads: int, reach: int = 32) -> None:
        super().__init__(d_model, num_heads)
        self.reach = reach

    def prepare(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> dict[str, Tensor]:
        """`hidden` (b or 1, h or 1, c, r, s): of each block of queries, which of its keys it may not look at."""
        n, r = x.shape[1], self.reach
        i = torch.arange(-(-n // r) * r, device=x.device).view(-1, r, 1)  # (c, r, 1) queries
        j = i[:, :1] - r + torch.arange((2 if is_causal else 3) * r, device=x.device)  # (c, 1, s) keys
        seen = ((i - j).abs() <= r) & (j >= 0) & (j < n)  # (c, r, s)
        if is_causal:
            seen &= j <= i
        if attn_mask is not None:
            of_pairs = attn_mask.expand(-1, -1, n, n)  # (b, h, n, n), a view
            seen = seen & (of_pairs[:, :, i.clamp(max=n - 1), j.clamp(0, n - 1)] | (i == j))  # (b, h, c, r, s)
        return {"hidden": ~seen}

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, hidden: Tensor | None = None
    ) -> Tensor:
        if hidden is None:
            hidden = self.prepare(x, attn_mask, is_causal)["hidden"]  # (…, c, r, s)
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        keys, values = self.neighbours(k, hidden), self.neighbours(v, hidden)  # (b, h, c, s, head_dim) each
        # The last block may be shorter, and is then done by itself: padded to r queries it would be more work.
        whole, rest = divmod(x.shape[1], self.reach)
        heads = []
        if whole:
            of_blocks = q[:, :, : whole * self.reach].unflatten(2, (whole, self.reach))  # (b, h, c, r, head_dim)
            heads.append(self.attend(of_blocks, keys[:, :, :whole], values[:, :, :whole], hidden[..., :whole, :, :]))
        if rest:
            of_rest = q[:, :, None, whole * self.reach :]  # (b, h, 1, rest, head_dim)
            hidden = hidden[..., whole:, :rest, :]  # (…, 1, rest, s)
            heads.append(self.attend(of_rest, keys[:, :, whole:], values[:, :, whole:], hidden))
        return self.merge(torch.cat([each.flatten(2, 3) for each in heads], dim=2))  # (b, n, d)

    def neighbours(self, heads: Tensor, hidden: Tensor) -> Tensor:
        """Each block of keys or values with those beside it: (b, h, n, head_dim) -> (b, h, c, s, head_dim)."""
        c, r, s = hidden.shape[-3:]
        after = (c - 1) * r + s - r - heads.shape[2]  # up to the last block's end, and one more if it looks ahead
        padded = pad(heads, (0, 0, r, after)).unflatten(2, (-1, r))  # (b, h, c + s/r − 1, r, head_dim)
        return torch.cat([padded[:, :, beside : beside + c] for beside in range(s // r)], dim=3)

    def attend(self, q: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
        """softmax(Q Kᵀ / √head_dim) V of each block: queries (b, h, c, r, head_dim), keys (b, h, c, s, head_dim)."""
        scores = (q / self.head_dim**0.5) @ keys.mT  # (b, h, c, r, s)
        return torch.softmax(scores.masked_fill_(hidden, float("-inf")), dim=-1) @ values  # (b, h, c, r, head_dim)

    def start(self, batch_size: int, seq_len: int) -> RingCache:
        """Room for the r tokens before one and itself, whatever `seq_len` is."""
        room = (batch_size, self.num_heads, self.reach + 1, self.head_dim)
        empty = torch.ones(self.reach + 1, dtype=torch.bool, device=self.in_proj_weight.device)
        return RingCache(self.in_proj_weight.new_zeros(room), self.in_proj_weight.new_zeros(room), empty, 0)

    def step(self, x_t: Tensor, cache: RingCache) -> tuple[Tensor, RingCache]:
        """One token more, (b, d) -> (b, d). All slots are always looked at, so that every step is the same work."""
        q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
        cache = cache.append(k, v)
        scores = q @ cache.keys.mT / self.head_dim**0.5  # (b, h, 1, r + 1)
        weights = torch.softmax(scores.masked_fill_(cache.empty, float("-inf")), dim=-1)
        return self.merge(weights @ cache.values)[:, 0], cache

    def prefill(self, x: Tensor, cache: RingCache) -> RingCache:
        """Put t tokens (b, t, d) into the cache at once: only the last r of them are ever looked at again."""
        last = x[:, -self.reach :]
        k, v = self.keys_and_values(last)  # (b, h, r or fewer, head_dim) each
        return cache.skip(x.shape[1] - last.shape[1]).append(k, v)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """The weights written out as n × n, 0 outside the window: (b, n, d) -> (b, h, n, n), rows sum to 1."""
        q, k, _ = self.project(x)
        at = torch.arange(x.shape[1], device=x.device)
        distance = (at[:, None] - at).abs()  # (n, n)
        seen = distance <= self.reach
        if attn_mask is not None:
            seen = seen & (attn_mask | (distance == 0))
        scores = q @ k.mT / self.head_dim**0.5  # (b, h, n, n)
        return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
