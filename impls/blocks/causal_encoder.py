"""The encoder's layer, no token seeing a later one: what it is around a rung that is causal by nature.

    x₀ = x + PE
    x₁ = LayerNorm(x₀ + SelfAttention(x₀)),   no token sees a later one
    y  = LayerNorm(x₁ + FFN(x₁))

Vaswani et al. 2017, section 3.1: the decoder's layer without its second attention, which is the layer of a language
model. Katharopoulos et al. 2020, section 3.4, for attention of which this is the only form there is. What this adds to
`Encoder` is decoding: no token changes what was made of those before it.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from impls.blocks.encoder import Encoder, Prepared
from impls.blocks.positions import sinusoids
from impls.blocks.rung import inside, refusal, taken_in


class Written(NamedTuple):
    """The state of decoding: `length` tokens so far, and what the attention keeps of them."""

    positions: Tensor  # (seq_len, d), of all tokens there is room for
    length: int
    attention: Any


class CausalEncoder(Encoder):
    """(b, n, d) -> (b, n, d). It is told of no mask: what stands behind a token, padding too, it does not see."""

    causal = True

    def forward(self, x: Tensor, prepared: Prepared | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, prepared=prepared or self.prepare(x)["prepared"])  # (b, n, d)

    def prepare(self, x: Tensor) -> dict[str, Prepared]:  # type: ignore[override]
        """The table of positions, and the causal mask of a rung that needs one."""
        return super().prepare(x, is_causal=True)

    def start(self, batch_size: int, seq_len: int) -> Written:
        """Nothing written, with room for `seq_len` tokens."""
        like = self.norm1.weight  # (d,)
        table = sinusoids(seq_len, like)  # (seq_len, d)
        positions = table if self.adds_positions else torch.zeros_like(table)
        return Written(positions, 0, self.self_attention.start(batch_size, seq_len))

    def step(self, x_t: Tensor, state: Written) -> tuple[Tensor, Written]:
        """One token more, (b, d) -> (b, d), at the position after those written."""
        x = x_t + state.positions[state.length]  # (b, d)
        seen, of_self = self.self_attention.step(x, state.attention)  # (b, d)
        x = self.norm1(x + seen)
        y = self.norm2(x + self.feed_forward(x))  # (b, d)
        return y, Written(state.positions, state.length + 1, of_self)

    def prefill(self, x: Tensor, state: Written) -> Written:
        """Take in t tokens (b, t, d) at once: only the attention remembers them."""
        end = state.length + x.shape[1]
        x = x + state.positions[state.length : end]  # (b, t, d)
        return state._replace(length=end, attention=taken_in(self.self_attention, x, state.attention))

    @staticmethod
    def supports(case: Any) -> str | None:
        """What the attention inside supports causally."""
        return refusal(inside(case), replace(case, mask="causal", real_share=1.0))
