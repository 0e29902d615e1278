"""Restricted self-attention: a token sees only tokens within a fixed distance r, at any sequence length.

    head = softmax(Q Kᵀ / √head_dim) V   over the pairs with |i − j| ≤ r

Vaswani et al. 2017, "Attention Is All You Need", section 4 and table 1, row 4. The work is r·n·d instead of n²·d, and
the path between two positions is n/r layers long.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from impls.attention.plain import AttentionParameters


class RingCache(NamedTuple):
    """Keys and values of the last few tokens, for decoding with a window at any sequence length.

    `keys` and `values` are (b, h, room, head_dim). Token t is stored in slot t mod room and overwrites token t − room.
    `empty` (room,) is True for slots that have never been filled. `length` is the number of tokens so far.
    """

    keys: Tensor
    values: Tensor
    empty: Tensor
    length: int

    def append(self, k: Tensor, v: Tensor) -> "RingCache":
        """Return a cache with t more tokens, (b, h, t, head_dim) each, in the same memory. t must be at most room."""
        length = self.length + k.shape[2]
        at = self.length % self.keys.shape[2]
        if k.shape[2] == 1:  # a step of decoding: a slice costs less than indices
            self.keys[:, :, at : at + 1], self.values[:, :, at : at + 1] = k, v
            self.empty[at : at + 1] = False
        else:
            slots = torch.arange(self.length, length, device=k.device) % self.keys.shape[2]
            self.keys[:, :, slots], self.values[:, :, slots] = k, v
            self.empty[slots] = False
        return self._replace(length=length)

    def skip(self, tokens: int) -> "RingCache":
        """Advance by `tokens` tokens without storing them."""
        return self._replace(length=self.length + tokens)


class WindowAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d). In comments, c is the number of blocks, r = `reach`, and s the keys of a block: 3r or 2r.

    Queries are processed in blocks of r. Each block attends to its own block of keys and the neighbours on both sides
    (under a causal mask: only the one before). The n × n scores are never formed. A token always sees itself, even a
    padding token, so that every row has a key.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"reach": ("r", 32)}

    def __init__(self, d_model: int, num_heads: int, reach: int = 32) -> None:
        super().__init__(d_model, num_heads)
        self.reach = reach

    def prepare(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> dict[str, Tensor]:
        """Return `hidden` (b or 1, h or 1, c, r, s): for each block of queries, which of its keys are masked."""
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
        return self.merge(attend_blocks(q, keys, values, hidden))  # (b, n, d)

    def neighbours(self, heads: Tensor, hidden: Tensor) -> Tensor:
        """Join each block of keys or values with its neighbours: (b, h, n, head_dim) -> (b, h, c, s, head_dim)."""
        c, r, s = hidden.shape[-3:]
        after = (c - 1) * r + s - r - heads.shape[2]  # up to the last block's end, plus one block if queries look ahead
        padded = pad(heads, (0, 0, r, after)).unflatten(2, (-1, r))  # (b, h, c + s/r − 1, r, head_dim)
        return torch.cat([padded[:, :, beside : beside + c] for beside in range(s // r)], dim=3)

    def start(self, batch_size: int, seq_len: int) -> RingCache:
        """Return an empty cache with room for a token and the r tokens before it, whatever `seq_len` is."""
        room = (batch_size, self.num_heads, self.reach + 1, self.head_dim)
        empty = torch.ones(self.reach + 1, dtype=torch.bool, device=self.in_proj_weight.device)
        return RingCache(self.in_proj_weight.new_zeros(room), self.in_proj_weight.new_zeros(room), empty, 0)

    def step(self, x_t: Tensor, cache: RingCache) -> tuple[Tensor, RingCache]:
        """Process one more token: (b, d) -> (b, d).

        Every step reads all slots, so that every step does the same work.
        """
        q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
        cache = cache.append(k, v)
        scores = q @ cache.keys.mT / self.head_dim**0.5  # (b, h, 1, r + 1)
        weights = torch.softmax(scores.masked_fill_(cache.empty, float("-inf")), dim=-1)
        return self.merge(weights @ cache.values)[:, 0], cache

    def prefill(self, x: Tensor, cache: RingCache) -> RingCache:
        """Add t tokens (b, t, d) to the cache at once.

        Only the last r of them are stored, because no earlier one is read again.
        """
        last = x[:, -self.reach :]
        k, v = self.keys_and_values(last)  # (b, h, r or fewer, head_dim) each
        return cache.skip(x.shape[1] - last.shape[1]).append(k, v)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return the weights as an n × n matrix, 0 outside the window: (b, n, d) -> (b, h, n, n). Rows sum to 1."""
        q, k, _ = self.project(x)
        at = torch.arange(x.shape[1], device=x.device)
        distance = (at[:, None] - at).abs()  # (n, n)
        seen = distance <= self.reach
        if attn_mask is not None:
            seen = seen & (attn_mask | (distance == 0))
        scores = q @ k.mT / self.head_dim**0.5  # (b, h, n, n)
        return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)


def attend_blocks(q: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """Return softmax(Q Kᵀ / √head_dim) V of each block of queries over keys of its own: (b, h, n, head_dim).

    Queries are (b, h, n, head_dim), keys and values (b, h, c, s, head_dim), and `hidden` is (…, c, r, s).
    """
    # A shorter last block is processed separately: padding it to r queries would add work.
    r = hidden.shape[-2]
    whole, rest = divmod(q.shape[2], r)
    heads = []
    if whole:
        of_blocks = q[:, :, : whole * r].unflatten(2, (whole, r))  # (b, h, c, r, head_dim)
        heads.append(_attend(of_blocks, keys[:, :, :whole], values[:, :, :whole], hidden[..., :whole, :, :]))
    if rest:
        of_rest = q[:, :, None, whole * r :]  # (b, h, 1, rest, head_dim)
        heads.append(_attend(of_rest, keys[:, :, whole:], values[:, :, whole:], hidden[..., whole:, :rest, :]))
    return torch.cat([each.flatten(2, 3) for each in heads], dim=2)


def _attend(q: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """Return the heads of each block: (b, h, c, r, head_dim), given keys and values (b, h, c, s, head_dim)."""
    scores = (q / q.shape[-1] ** 0.5) @ keys.mT  # (b, h, c, r, s)
    return torch.softmax(scores.masked_fill_(hidden, float("-inf")), dim=-1) @ values  # (b, h, c, r, head_dim)
