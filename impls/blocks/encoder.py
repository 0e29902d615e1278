"""Encoder block: attention, then a feed-forward network, each added to its input and normalised.

    x₀ = x + PE
    x₁ = LayerNorm(x₀ + SelfAttention(x₀))
    y  = LayerNorm(x₁ + FFN(x₁))

Vaswani et al. 2017, sections 3.1, 3.3 and 3.5, with the norm after each sum (post-norm), as in the paper. The block
adds everything that surrounds attention in a model: 16nd² more FLOPs, none of which grow faster than n. In a stack,
only the first block adds positions: see `stack.py`. The block has no dropout, because the harness measures a layer's
cost.
"""

from typing import Any, NamedTuple

from torch import Tensor, nn

from impls.blocks.feed_forward import FeedForward
from impls.blocks.positions import sinusoids
from impls.blocks.rung import DEFAULT, find, inside, refusal, told


class Prepared(NamedTuple):
    """What a pass needs beside its input: `positions` (n, d), if added, and the attention's keyword arguments."""

    positions: Tensor | None
    attention: dict[str, Any]


class Encoder(nn.Module):
    """(b, n, d) -> (b, n, d), around the layer `attention`, `module:Class`, built with `attention_options`.

    With `adds_positions=False`, this is a later block of a stack, whose tokens already contain positions. With
    `is_causal`, it is a decoder block without a source, as in a language model. Around a layer that is causal by
    nature, it is always causal: see `CausalEncoder`.
    """

    kinks = True  # ReLU

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: str = DEFAULT,
        attention_options: dict[str, Any] | None = None,
        adds_positions: bool = True,
    ) -> None:
        super().__init__()
        self.adds_positions = adds_positions
        self.self_attention = find(attention)(d_model=d_model, num_heads=num_heads, **attention_options or {})
        self.norm1 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        prepared: Prepared | None = None,
    ) -> Tensor:
        if prepared is None:
            prepared = self.prepare(x, attn_mask, is_causal)["prepared"]
        if prepared.positions is not None:
            x = x + prepared.positions  # (b, n, d)
        x = self.norm1(x + self.self_attention(x, **prepared.attention))  # (b, n, d)
        return self.norm2(x + self.feed_forward(x))  # (b, n, d)

    def prepare(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> dict[str, Prepared]:
        """Return the table of positions and the mask in the attention's layout.

        A model makes these once, not in each layer.
        """
        positions = sinusoids(x.shape[1], x) if self.adds_positions else None
        return {"prepared": Prepared(positions, told(self.self_attention, x, attn_mask, is_causal))}

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the attention inside cannot run the case, or None."""
        return refusal(inside(case), case)
