"""Packed attention through `torch.compile`: the same formula, with the program written by torch.

    softmax(Q Kᵀ / √head_dim) V   over (b, h, n, head_dim)

Ansel et al. 2024, "PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
Compilation". Differences from `packed`: the whole layer is one graph (`fullgraph`, so nothing is left to Python). The
graph is compiled for exactly these sizes (`dynamic=False`). Scale, mask and softmax become one pass over the scores.
The matrix products remain those of the library.

If the compiler recognises the pattern, it inserts a fused kernel (torch 2.6 to 2.13 on a CPU: one sequence without a
mask). The scores are then in memory in some cases and not in others, so the layer claims no order of memory. The work
claims are those of the formula as written.

Decoding uses a separate program, the same one for all positions. The position is a tensor, because a plain number would
be compiled into the program. Each token attends to the whole cache, with empty slots masked.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from impls.attention.packed import PackedAttention


class Slots(NamedTuple):
    """`keys` and `values` (b, h, n, head_dim), one slot for every token, and `position` (1,) of the next token.

    For a source, `position` is None: all slots are filled, and no token is added.
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
        """Process one more token: store its key and value in their slot.

        Return the output (b, d) and the next position.
        """
        q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        is_there = torch.arange(keys.shape[2], device=keys.device) <= position  # (n,)
        return self.merge(self.attend(q, keys, values, is_there))[:, 0], position + 1

    def source_token(self, x_t: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Process one more token that attends to the whole source: (b, d) -> (b, d)."""
        q = self.queries(x_t[:, None])  # (b, h, 1, head_dim)
        return self.merge(self.attend(q, keys, values))[:, 0]

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> Slots:  # type: ignore[override]
        """Return empty slots for `seq_len` tokens, or the filled slots of the `source` tokens if given."""
        cache = super().start(batch_size, seq_len, source)
        first = None if source is not None else torch.zeros(1, dtype=torch.long, device=cache.keys.device)
        return Slots(cache.keys, cache.values, first)

    def step(self, x_t: Tensor, slots: Slots) -> tuple[Tensor, Slots]:  # type: ignore[override]
        """Process one more token: (b, d) -> (b, d). The token attends to itself and to all tokens before it."""
        x_t = x_t.contiguous()  # one layout, one program
        if slots.position is None:
            return self._source_token(x_t, slots.keys, slots.values), slots
        y_t, following = self._own_token(x_t, slots.keys, slots.values, slots.position)
        return y_t, slots._replace(position=following)

    def prefill(self, x: Tensor, slots: Slots) -> Slots:  # type: ignore[override]
        """Put t tokens (b, t, d) into their slots at once. This is not compiled."""
        if slots.position is None:
            return slots
        k, v = self.keys_and_values(x)  # (b, h, t, head_dim) each
        places = slots.position + torch.arange(x.shape[1], device=x.device)  # (t,)
        slots.keys.index_copy_(2, places, k)
        slots.values.index_copy_(2, places, v)
        return slots._replace(position=slots.position + x.shape[1])
