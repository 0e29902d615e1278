"""Causal encoder block: the encoder block around an attention layer that is causal by nature.

    x₀ = x + PE
    x₁ = LayerNorm(x₀ + SelfAttention(x₀)),   no token sees a later one
    y  = LayerNorm(x₁ + FFN(x₁))

Vaswani et al. 2017, section 3.1: the decoder block without its second attention, which is the block of a language
model. Katharopoulos et al. 2020, section 3.4, for attention that exists only in this form. In addition to `Encoder`,
this block can decode: a token never changes the results of earlier tokens.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from impls.blocks.encoder import Encoder, Prepared
from impls.blocks.positions import sinusoids
from impls.blocks.rung import inside, refusal, taken_in


class Written(NamedTuple):
    """Decoding state: the number of tokens so far (`length`), and the state of the attention."""

    positions: Tensor  # (seq_len, d), for all tokens up to the capacity
    length: int
    attention: Any


class CausalEncoder(Encoder):
    """(b, n, d) -> (b, n, d). The block takes no mask: a token never sees later tokens, including padding."""

    causal = True

    def forward(self, x: Tensor, prepared: Prepared | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, prepared=prepared or self.prepare(x)["prepared"])  # (b, n, d)

    def prepare(self, x: Tensor) -> dict[str, Prepared]:  # type: ignore[override]
        """Return the table of positions, and a causal mask if the attention layer needs one."""
        return super().prepare(x, is_causal=True)

    def start(self, batch_size: int, seq_len: int) -> Written:
        """Return an empty state with room for `seq_len` tokens."""
        like = self.norm1.weight  # (d,)
        table = sinusoids(seq_len, like)  # (seq_len, d)
        positions = table if self.adds_positions else torch.zeros_like(table)
        return Written(positions, 0, self.self_attention.start(batch_size, seq_len))

    def step(self, x_t: Tensor, state: Written) -> tuple[Tensor, Written]:
        """Process one more token at the next position: (b, d) -> (b, d)."""
        x = x_t + state.positions[state.length]  # (b, d)
        seen, of_self = self.self_attention.step(x, state.attention)  # (b, d)
        x = self.norm1(x + seen)
        y = self.norm2(x + self.feed_forward(x))  # (b, d)
        return y, Written(state.positions, state.length + 1, of_self)

    def prefill(self, x: Tensor, state: Written) -> Written:
        """Return the state after t more tokens (b, t, d). Only the attention keeps a state of them."""
        end = state.length + x.shape[1]
        x = x + state.positions[state.length : end]  # (b, t, d)
        return state._replace(length=end, attention=taken_in(self.self_attention, x, state.attention))

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the attention inside cannot run the case with a causal mask, or None."""
        return refusal(inside(case), replace(case, mask="causal", real_share=1.0))
