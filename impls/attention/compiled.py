"""Packed attention handed to the compiler: the same formula, and torch writes the program.

    softmax(Q Kᵀ / √head_dim) V   over (b, h, n, head_dim)

Ansel et al. 2024, "PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
Compilation". What this rung adds to `packed`: one graph of the whole layer (`fullgraph`, so that nothing is left to
Python), and of it a program for just these sizes (`dynamic=False`). Scale, mask and softmax become one pass over the
scores, and the matrix products stay those of the library.

Where the compiler knows the pattern it puts a fused kernel in its place (torch 2.6 to 2.13 on a CPU: of one sequence
without a mask). So no order of memory is claimed: the scores are there in one case and not in the next. Work is that
of the formula as it is written.

It decodes by a program of its own, one for all positions: the position is a tensor, not a number that the program
would be made for, and each token looks at the whole cache with what is not there yet masked.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from impls.attention.packed import PackedAttention


class Slots(NamedTuple):
    """`keys` and `values` (b, h, n, head_dim) with a slot for every token, and `position` (1,) of the next one.

    Of a source `position` is None: all its tokens are there, and none is added.
    """

    keys: Tensor
    values: Tensor
    position: Tensor | None


class CompiledAttention(PackedAttention):
    """(b, n, d) -> (b, n, d). The first call of each kind compiles."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self._forward = torch.compile(super().forward, fullgraph=True, dynamic=False)
        self._own_token = torch.compile(self.own_token, fullgraph=True, dynamic=False)
        self._source_token = torch.compile(self.source_token, fullgraph=True, dynamic=False)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        return self._forward(x, attn_mask, source)  # (b, n, d)

    def own_token(self, x_t: Tensor, keys: Tensor, values: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """One token more, (b, d) -> (b, d), its key and value put into their slot; and the next position."""
        q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        is_there = torch.arange(keys.shape[2], device=keys.device) <= position  # (n,)
        return self.merge(self.attend(q, keys, values, is_there))[:, 0], position + 1

    def source_token(self, x_t: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """One token more, (b, d) -> (b, d), which looks at all of a source."""
        q = self.queries(x_t[:, None])  # (b, h, 1, head_dim)
        return self.merge(self.attend(q, keys, values))[:, 0]

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> Slots:  # type: ignore[override]
        """Empty slots for `seq_len` tokens; with a source, those of its tokens, filled."""
        cache = super().start(batch_size, seq_len, source)
        first = None if source is not None else torch.zeros(1, dtype=torch.long, device=cache.keys.device)
        return Slots(cache.keys, cache.values, first)

    def step(self, x_t: Tensor, slots: Slots) -> tuple[Tensor, Slots]:  # type: ignore[override]
        """One token more, (b, d) -> (b, d): it attends to all that are there and to itself."""
        x_t = x_t.contiguous()  # one layout, one program
        if slots.position is None:
            return self._source_token(x_t, slots.keys, slots.values), slots
        y_t, following = self._own_token(x_t, slots.keys, slots.values, slots.position)
        return y_t, slots._replace(position=following)

    def prefill(self, x: Tensor, slots: Slots) -> Slots:  # type: ignore[override]
        """Put t tokens (b, t, d) into their slots at once; not compiled."""
        if slots.position is None:
            return slots
        k, v = self.keys_and_values(x)  # (b, h, t, head_dim) each
        places = slots.position + torch.arange(x.shape[1], device=x.device)  # (t,)
        slots.keys.index_copy_(2, places, k)
        slots.values.index_copy_(2, places, v)
        return slots._replace(position=slots.position + x.shape[1])
