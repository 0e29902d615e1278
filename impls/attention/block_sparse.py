"""Block-sparse attention: a table says which blocks of keys each block of queries sees, and no other score is computed.

    head = softmax(Q Kᵀ / √head_dim) V   over the pairs whose blocks are in the table

The table is that of Zaheer et al. 2020, "Big Bird", arXiv:2007.14062, section 2: neighbours, random blocks, and a first
block that sees, and is seen by, all. Computing whole blocks is from Child et al. 2019, "Generating Long Sequences with
Sparse Transformers", arXiv:1904.10509, section 5.5.
"""

from random import Random
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from impls.attention.global_window import attend_rows, hidden_rows, of_pairs
from impls.attention.plain import AttentionParameters, KVCache
from impls.attention.reference import AttentionReference
from impls.attention.window import attend_blocks

_RANDOM = 2  # random blocks of keys for each block of queries
_SEEN = 1 + 3 + _RANDOM  # the first block, the block itself with its two neighbours, and the random blocks


def random_blocks(i: int) -> list[int]:
    """Return the random blocks that block i of queries sees. All of them are earlier, and they are the same for any n.

    In the paper, they may be later as well. Decoding would then compute another function than a forward pass.
    """
    earlier = range(1, i - 1)
    return Random(i).sample(earlier, min(_RANDOM, len(earlier)))


def blocks_seen(i: int, count: int) -> list[int]:
    """Return the blocks of keys that block i of `count` sees, and −1 for those that it lacks."""
    seen = [0, *(j for j in (i - 1, i, i + 1) if 0 < j < count), *random_blocks(i)]
    return seen + [-1] * (_SEEN - len(seen))


class BlockCache(NamedTuple):
    """Decoding state: the cache of all tokens, with room for whole blocks, and the table of blocks."""

    cache: KVCache
    table: Tensor


class BlockSparseAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d). In comments, c is the number of blocks, r = `block`, and s = 6r the keys that one sees.

    In claims, B is `block`. The table is data: any other table gives another sparse attention of the same code.
    Advantage over a window: a random block connects distant tokens. Drawback: keys and values are gathered, six times
    as many as there are.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"block": ("B", 32)}

    def __init__(self, d_model: int, num_heads: int, block: int = 32) -> None:
        super().__init__(d_model, num_heads)
        self.block = block

    def prepare(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> dict[str, Tensor]:
        """Return `table` (c, 6), `hidden` (…, c, r, s), and for the first block of queries `hidden_rows` (…, r, n)."""
        n, r = x.shape[1], self.block
        table = self.table(n, x.device)
        i = torch.arange(len(table) * r, device=x.device).view(-1, r, 1)  # (c, r, 1) queries
        j = (table[:, :, None] * r + torch.arange(r, device=x.device)).view(-1, 1, _SEEN * r)  # (c, 1, s) keys
        seen = ((j >= 0) & (j < n)).expand(-1, r, -1)  # (c, r, s)
        if is_causal:
            seen = seen & (j <= i)
        if attn_mask is not None:
            allowed = attn_mask.expand(-1, -1, n, n)[:, :, i.clamp(max=n - 1), j.clamp(0, n - 1)]
            seen = seen & (allowed | (i == j))  # (b, h, c, r, s)
        return {
            "table": table,
            "hidden": ~seen,
            "hidden_rows": hidden_rows(n, r, attn_mask, is_causal, x.device),
        }

    def table(self, n: int, device: torch.device) -> Tensor:
        """Return the blocks of keys that each block of n tokens sees, (c, 6)."""
        count = -(-n // self.block)
        return torch.tensor([blocks_seen(i, count) for i in range(count)], device=device)

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        table: Tensor | None = None,
        hidden: Tensor | None = None,
        hidden_rows: Tensor | None = None,
    ) -> Tensor:
        if table is None or hidden is None or hidden_rows is None:
            prepared: dict[str, Any] = self.prepare(x, attn_mask, is_causal)
            return self.forward(x, **prepared)
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        of_blocks = attend_blocks(q, self.gathered(k, table), self.gathered(v, table), hidden)
        of_first = attend_rows(q, k, v, hidden_rows)  # (b, h, r, head_dim)
        return self.merge(torch.cat([of_first[:, :, : x.shape[1]], of_blocks[:, :, self.block :]], dim=2))

    def gathered(self, heads: Tensor, table: Tensor) -> Tensor:
        """Return the keys or values that each row of the table names: (b, h, n, head_dim) -> (b, h, c, s, head_dim)."""
        blocks = pad(heads, (0, 0, 0, -heads.shape[2] % self.block)).unflatten(2, (-1, self.block))
        found = blocks.index_select(2, table.clamp(min=0).flatten())  # (b, h, c · 6, r, head_dim)
        return found.unflatten(2, table.shape).flatten(3, 4)

    def start(self, batch_size: int, seq_len: int) -> BlockCache:
        """Return an empty cache for `seq_len` tokens."""
        weight = self.in_proj_weight
        table = self.table(seq_len, weight.device)
        room = (batch_size, self.num_heads, len(table) * self.block, self.head_dim)
        return BlockCache(KVCache(weight.new_zeros(room), weight.new_zeros(room), 0), table)

    def step(self, x_t: Tensor, state: BlockCache) -> tuple[Tensor, BlockCache]:
        """Process one more token: (b, d) -> (b, d). Of the cache, it reads only what the row of its block names."""
        q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
        t, cache = state.cache.length, state.cache.append(k, v)
        row = state.table[t // self.block][None]  # (1, 6)
        j = (row[..., None] * self.block + torch.arange(self.block, device=x_t.device)).flatten()  # (s,)
        keys, values = (self.gathered(each, row)[:, :, 0] for each in cache[:2])  # (b, h, s, head_dim) each
        scores = (q @ keys.mT / self.head_dim**0.5).masked_fill_((j < 0) | (j > t), float("-inf"))
        return self.merge(torch.softmax(scores, dim=-1) @ values)[:, 0], BlockCache(cache, state.table)

    def prefill(self, x: Tensor, state: BlockCache) -> BlockCache:
        """Add t tokens (b, t, d) to the cache at once."""
        return state._replace(cache=state.cache.append(*self.keys_and_values(x)))


class BlockSparseReference(AttentionReference):
    """Reference of block-sparse attention: full attention that hides all other pairs. (b, n, d) -> (b, n, d)."""

    def __init__(self, d_model: int, num_heads: int, block: int = 32) -> None:
        super().__init__(d_model, num_heads)
        self.block = block

    def forward(  # type: ignore[override]
        self, x: Tensor, attn_mask: Tensor | None = None, rows: Tensor | None = None
    ) -> Tensor:
        j = torch.arange(x.shape[1], device=x.device)
        i = (j if rows is None else rows)[:, None]
        of_i, of_j = i // self.block, j // self.block
        count = -(-x.shape[1] // self.block)
        random = [[j in blocks for j in range(count)] for blocks in map(random_blocks, range(count))]
        near = ((of_i - of_j).abs() <= 1) | (torch.minimum(of_i, of_j) == 0)  # (n, n)
        pairs = near | torch.tensor(random, device=x.device)[of_i, of_j]
        return super().forward(x, of_pairs(pairs, i == j, attn_mask, x.shape[0]), rows=rows)
