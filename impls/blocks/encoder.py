"""One layer of the encoder: attention, then a feed-forward network, each added to its input and normalised.

    x₀ = x + PE
    x₁ = LayerNorm(x₀ + SelfAttention(x₀))
    y  = LayerNorm(x₁ + FFN(x₁))

Vaswani et al. 2017, sections 3.1, 3.3 and 3.5, with the norm behind each sum (post-norm), as there. What this adds to
an attention rung is all that stands around it in a model: 16nd² more work, none of which grows faster than n. In a
stack only the first layer adds positions: see `stack.py`. There is no dropout: what is measured is a layer's cost.
"""

from typing import Any, NamedTuple

from torch import Tensor, nn

from impls.blocks.feed_forward import FeedForward
from impls.blocks.positions import sinusoids
from impls.blocks.rung import DEFAULT, find, inside, refusal, told


class Prepared(NamedTuple):
    """What a pass needs beside its input: `positions` (n, d) if it adds them, and what the attention is told."""

    positions: Tensor | None
    attention: dict[str, Any]


class Encoder(nn.Module):
    """(b, n, d) -> (b, n, d), around the rung `attention`, `module:Class`, built with `attention_options`.

    With `adds_positions=False` it is a later layer of a stack, whose tokens have been told where they stand.
    With `is_causal` it is a layer of a decoder without a source, as in a language model. Around a rung that is causal
    by nature it is always that: `CausalEncoder`.
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
        """The table of positions and the mask's layout, which a model makes once and not in each layer."""
        positions = sinusoids(x.shape[1], x) if self.adds_positions else None
        return {"prepared": Prepared(positions, told(self.self_attention, x, attn_mask, is_causal))}

    @staticmethod
    def supports(case: Any) -> str | None:
        """What the attention inside supports."""
        return refusal(inside(case), case)
