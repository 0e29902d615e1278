"""Decoder block: self-attention over its own tokens, attention over the source, then a feed-forward network.

    x₀ = x + PE
    x₁ = LayerNorm(x₀ + SelfAttention(x₀)),   no token sees a later one
    x₂ = LayerNorm(x₁ + CrossAttention(x₁, source)),   queries of x₁, keys and values of the source
    y  = LayerNorm(x₂ + FFN(x₂))

Vaswani et al. 2017, sections 3.1, 3.2.3, 3.3 and 3.5. Compared with the encoder block, this block adds cross-attention
over the encoder's output for another sequence. It also adds decoding: one token at a time, with the keys and values of
earlier tokens and of the source kept. It has no dropout.

An attention layer without cross-attention (a window, a recurrence) serves as self-attention only. The cross-attention
is then `attention.fused`. Such a hybrid is linear in n over its own tokens and n·m over the source.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from impls.blocks.feed_forward import FeedForward
from impls.blocks.positions import sinusoids
from impls.blocks.rung import DEFAULT, find, inside, over_source, refusal, taken_in, told


class Prepared(NamedTuple):
    """What a pass needs beside its input: `positions` (n, d), and the keyword arguments of both attentions.

    The arguments of the cross-attention include the source.
    """

    positions: Tensor
    self_attention: dict[str, Any]
    cross_attention: dict[str, Any]


class Written(NamedTuple):
    """Decoding state: the number of tokens so far (`length`), and the state of both attentions."""

    positions: Tensor  # (seq_len, d), for all tokens up to the capacity
    length: int
    self_attention: Any
    cross_attention: Any


class Decoder(nn.Module):
    """(b, n, d) and a source (b, m, d) -> (b, n, d), around the layer `attention`, as in `Encoder`.

    Both attentions are this layer if its `forward` takes a `source`. If not, the cross-attention is `attention.fused`.
    `attn_mask` masks the source and is broadcastable to (b, h, n, m). The source is the output of an encoder and
    already contains positions.
    """

    causal = True
    needs_source = True
    kinks = True  # ReLU

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: str = DEFAULT,
        attention_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        rung, options = find(attention), attention_options or {}
        self.self_attention = rung(d_model=d_model, num_heads=num_heads, **options)
        self.norm1 = nn.LayerNorm(d_model)
        cross = over_source(rung)
        self.cross_attention = cross(d_model=d_model, num_heads=num_heads, **(options if cross is rung else {}))
        self.norm2 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        attn_mask: Tensor | None = None,
        prepared: Prepared | None = None,
    ) -> Tensor:
        if prepared is None:
            prepared = self.prepare(x, source, attn_mask)["prepared"]
        x = x + prepared.positions  # (b, n, d)
        x = self.norm1(x + self.self_attention(x, **prepared.self_attention))  # (b, n, d)
        x = self.norm2(x + self.cross_attention(x, **prepared.cross_attention))  # (b, n, d)
        return self.norm3(x + self.feed_forward(x))  # (b, n, d)

    def prepare(self, x: Tensor, source: Tensor, attn_mask: Tensor | None = None) -> dict[str, Any]:
        """Return the table of positions and the masks in the attentions' layouts.

        A model makes these once, not in each layer.
        """
        of_self = told(self.self_attention, x, is_causal=True)
        of_cross = told(self.cross_attention, x, attn_mask, source=source)
        return {"source": source, "prepared": Prepared(sinusoids(x.shape[1], x), of_self, of_cross)}

    def start(self, batch_size: int, seq_len: int, source: Tensor) -> Written:
        """Return an empty state with room for `seq_len` tokens.

        The keys and values of the source are computed here, once.
        """
        return Written(
            sinusoids(seq_len, source),
            0,
            self.self_attention.start(batch_size, seq_len),
            self.cross_attention.start(batch_size, seq_len, source=source),
        )

    def step(self, x_t: Tensor, state: Written) -> tuple[Tensor, Written]:
        """Process one more token at the next position: (b, d) -> (b, d)."""
        x = x_t + state.positions[state.length]  # (b, d)
        seen, of_self = self.self_attention.step(x, state.self_attention)  # (b, d)
        x = self.norm1(x + seen)
        seen, of_cross = self.cross_attention.step(x, state.cross_attention)  # (b, d)
        x = self.norm2(x + seen)
        y = self.norm3(x + self.feed_forward(x))  # (b, d)
        return y, Written(state.positions, state.length + 1, of_self, of_cross)

    def prefill(self, x: Tensor, state: Written) -> Written:
        """Return the state after t more tokens (b, t, d). Only the self-attention keeps a state of them."""
        end = state.length + x.shape[1]
        x = x + state.positions[state.length : end]  # (b, t, d)
        return state._replace(length=end, self_attention=taken_in(self.self_attention, x, state.self_attention))

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why an attention inside cannot run the case, or None.

        The self-attention must support a causal mask, and the cross-attention a source.
        """
        rung = inside(case)
        of_source = {
            "mask": case.mask if case.mask == "padding" else "none",
            "source_len": case.source_len or case.seq_len,
        }
        of_self = replace(case, mask="causal", real_share=1.0, source_len=0)
        return refusal(rung, of_self) or refusal(over_source(rung), replace(case, **of_source))
