"""Encoder and decoder blocks around any attention layer, which a block finds by name (`module:Class`).

Vaswani et al. 2017, "Attention Is All You Need", sections 3.1, 3.2.3, 3.3 and 3.5, with the norm after each sum
(post-norm), as in the paper. The blocks have no dropout, because the harness measures a layer's cost.
"""

import importlib
import inspect
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# The attention layer inside a block: find it by name, and pass masks and sources in the form that it takes.

DEFAULT = "impls.attention.plain:NaiveAttention"
# The cross-attention if the layer itself takes no source.
STAND_IN = "impls.attention.fused:FusedAttention"


def find(target: str) -> type[Any]:
    """Return the class named `module:Class`."""
    module, _, name = target.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), name)
    return found


def over_source(attention: type[Any]) -> type[Any]:
    """Return the layer itself if its `forward` takes a source, else `STAND_IN`."""
    return attention if "source" in _parameters(attention) else find(STAND_IN)


def arguments_for(
    attention: nn.Module,
    x: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    source: Tensor | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments for the layer's `forward`, with masks in the layer's own layout if it has one.

    Causality is passed as `is_causal` if the layer takes it and no `attn_mask` is given. If not, it becomes part of
    `attn_mask`. A layer that is causal by nature gets neither.
    """
    keywords: dict[str, Any] = {} if source is None else {"source": source}
    if is_causal and not getattr(attention, "causal", False):
        if attn_mask is None and "is_causal" in _parameters(type(attention)):
            keywords["is_causal"] = True
        else:
            n = x.shape[1]
            earlier = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()[None, None]  # (1, 1, n, n)
            attn_mask = earlier if attn_mask is None else earlier & attn_mask
    if attn_mask is not None:
        keywords["attn_mask"] = attn_mask
    prepare = getattr(attention, "prepare", None)
    return keywords if prepare is None else prepare(x, **keywords)


def prefilled(attention: Any, x: Tensor, state: Any) -> Any:
    """Return the layer's state after t more tokens (b, t, d): at once if it has `prefill`, else step by step."""
    if hasattr(attention, "prefill"):
        return attention.prefill(x, state)
    for x_t in x.unbind(1):  # t times (b, d)
        _, state = attention.step(x_t, state)
    return state


def inside(case: Any) -> type[Any]:
    """Return the class of the attention layer inside the case's block, or `DEFAULT` for an unregistered block."""
    from impls.registry import IMPLS  # imported here because the registry imports the blocks' entries

    options = IMPLS[case.impl].options if case.impl in IMPLS else {}
    return find(options.get("attention", DEFAULT))


def refusal(attention: Any, case: Any) -> str | None:
    """Return why the attention layer cannot run the case, or None if nothing prevents it."""
    supports = getattr(attention, "supports", None)
    said = supports(case) if supports is not None else None
    if said:
        return str(said)
    takes = _parameters(attention)
    if case.mode == "decode" and not hasattr(attention, "step"):
        return "the attention inside has no start and step to decode with"
    if case.kv_len and "source" not in takes:
        return "the attention inside takes no source"
    # A layer that is causal by nature needs no mask over its own input, but still needs the padding mask of a source.
    causal = getattr(attention, "causal", False)
    if case.mask == "padding" and case.kv_len and "attn_mask" not in takes:
        return "the attention inside takes a source, and no attn_mask to hide its padding with"
    if case.mask == "padding" and not causal and "attn_mask" not in takes:
        return "the attention inside takes no attn_mask"
    if case.mask == "causal" and not causal and not {"is_causal", "attn_mask"} & takes:
        return "the attention inside takes neither is_causal nor attn_mask"
    return None


def _parameters(attention: Any) -> set[str]:
    return set(inspect.signature(attention.forward).parameters)


class FeedForward(nn.Module):
    """Feed-forward network applied to each position separately: widen, apply ReLU, narrow. (b, n, d) -> (b, n, d).

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2

    Vaswani et al. 2017, section 3.3. The inner width is 4d, the paper's ratio of 2048 to 512. The network therefore has
    twice the weights of an attention: 8d² against 4d².
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(d_model, 4 * d_model)
        self.linear2 = nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.linear1(x))  # (b, n, 4d)
        return self.linear2(hidden)  # (b, n, d)


def sinusoids(n: int, like: Tensor) -> Tensor:
    """Return the encodings of the first n positions (n, d), with the width, dtype and device of `like` (…, d).

        PE(pos, 2i) = sin(pos / 10000^(2i/d)),   PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))

    Vaswani et al. 2017, section 3.5. Without positions, attention sees a set of tokens, not a sequence. Each pair of
    dimensions is a rotation with its own speed, from one radian per token down to one in 10000 tokens. PE(pos + k) is
    PE(pos) rotated by an angle that depends on k only.

    The table has no weights. It is computed in float64 for every dtype, because half precision would distort the
    angles.
    """
    d = like.shape[-1]
    position = torch.arange(n, dtype=torch.float64, device=like.device)[:, None]  # (n, 1)
    even = torch.arange(0, d, 2, dtype=torch.float64, device=like.device)  # (⌈d/2⌉,): the 2i above
    angle = position / 10000 ** (even / d)  # (n, ⌈d/2⌉)
    pairs = torch.stack((angle.sin(), angle.cos()), dim=-1)  # (n, ⌈d/2⌉, 2)
    return pairs.flatten(1)[:, :d].to(like.dtype)  # (n, d)


class Prepared(NamedTuple):
    """What a pass needs beside its input: `positions` (n, d), if added, and the attention's keyword arguments."""

    positions: Tensor | None
    attention: dict[str, Any]


class Encoder(nn.Module):
    """Encoder block: attention, then a feed-forward network, each added to its input and normalised.

        x₀ = x + PE
        x₁ = LayerNorm(x₀ + SelfAttention(x₀))
        y  = LayerNorm(x₁ + FFN(x₁))

    (b, n, d) -> (b, n, d), around the layer `attention`, `module:Class`, built with `attention_options`. The block adds
    everything that surrounds attention in a model: 16nd² more FLOPs, none of which grow faster than n.

    With `adds_positions=False`, this is a later block of a stack, whose tokens already contain positions: see
    `stack.py`. With `is_causal`, it is a decoder block without a source, as in a language model. Around a layer that is
    causal by nature, it is always causal: see `CausalEncoder`.
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
        return {"prepared": Prepared(positions, arguments_for(self.self_attention, x, attn_mask, is_causal))}

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the attention inside cannot run the case, or None."""
        return refusal(inside(case), case)


class Written(NamedTuple):
    """Decoding state: the number of tokens so far (`length`), and the state of the attention."""

    positions: Tensor  # (seq_len, d), for all tokens up to the capacity
    length: int
    attention: Any


class CausalEncoder(Encoder):
    """Encoder block around an attention layer that is causal by nature: (b, n, d) -> (b, n, d).

        x₀ = x + PE
        x₁ = LayerNorm(x₀ + SelfAttention(x₀)),   no token sees a later one
        y  = LayerNorm(x₁ + FFN(x₁))

    Vaswani et al. 2017, section 3.1: the decoder block without its second attention, which is the block of a language
    model. Katharopoulos et al. 2020, "Transformers are RNNs", section 3.4, for attention that exists only in this form.
    In addition to `Encoder`, this block can decode: a token never changes the results of earlier tokens. The block
    takes no mask: a token never sees later tokens, including padding.
    """

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
        return state._replace(length=end, attention=prefilled(self.self_attention, x, state.attention))

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the attention inside cannot run the case with a causal mask, or None."""
        return refusal(inside(case), replace(case, mask="causal", padding_fraction=0.0))


class DecoderArguments(NamedTuple):
    """What a pass needs beside its input: `positions` (n, d), and the keyword arguments of both attentions.

    The arguments of the cross-attention include the source.
    """

    positions: Tensor
    self_attention: dict[str, Any]
    cross_attention: dict[str, Any]


class DecoderState(NamedTuple):
    """Decoding state: the number of tokens so far (`length`), and the state of both attentions."""

    positions: Tensor  # (seq_len, d), for all tokens up to the capacity
    length: int
    self_attention: Any
    cross_attention: Any


class Decoder(nn.Module):
    """Decoder block: self-attention over its own tokens, attention over the source, then a feed-forward network.

        x₀ = x + PE
        x₁ = LayerNorm(x₀ + SelfAttention(x₀)),   no token sees a later one
        x₂ = LayerNorm(x₁ + CrossAttention(x₁, source)),   queries of x₁, keys and values of the source
        y  = LayerNorm(x₂ + FFN(x₂))

    (b, n, d) and a source (b, m, d) -> (b, n, d), around the layer `attention`, as in `Encoder`. The source is the
    output of an encoder for another sequence and already contains positions. `attn_mask` masks the source and is
    broadcastable to (b, h, n, m). Decoding computes one token at a time, with the keys and values of earlier tokens and
    of the source kept.

    Both attentions are this layer if its `forward` takes a `source`. If not (a window, a recurrence), the
    cross-attention is `attention.fused`. Such a hybrid is linear in n over its own tokens and n·m over the source.
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
        layer, options = find(attention), attention_options or {}
        self.self_attention = layer(d_model=d_model, num_heads=num_heads, **options)
        self.norm1 = nn.LayerNorm(d_model)
        cross = over_source(layer)
        self.cross_attention = cross(d_model=d_model, num_heads=num_heads, **(options if cross is layer else {}))
        self.norm2 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        attn_mask: Tensor | None = None,
        prepared: DecoderArguments | None = None,
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
        of_self = arguments_for(self.self_attention, x, is_causal=True)
        of_cross = arguments_for(self.cross_attention, x, attn_mask, source=source)
        return {"source": source, "prepared": DecoderArguments(sinusoids(x.shape[1], x), of_self, of_cross)}

    def start(self, batch_size: int, seq_len: int, source: Tensor) -> DecoderState:
        """Return an empty state with room for `seq_len` tokens.

        The keys and values of the source are computed here, once.
        """
        return DecoderState(
            sinusoids(seq_len, source),
            0,
            self.self_attention.start(batch_size, seq_len),
            self.cross_attention.start(batch_size, seq_len, source=source),
        )

    def step(self, x_t: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Process one more token at the next position: (b, d) -> (b, d)."""
        x = x_t + state.positions[state.length]  # (b, d)
        seen, of_self = self.self_attention.step(x, state.self_attention)  # (b, d)
        x = self.norm1(x + seen)
        seen, of_cross = self.cross_attention.step(x, state.cross_attention)  # (b, d)
        x = self.norm2(x + seen)
        y = self.norm3(x + self.feed_forward(x))  # (b, d)
        return y, DecoderState(state.positions, state.length + 1, of_self, of_cross)

    def prefill(self, x: Tensor, state: DecoderState) -> DecoderState:
        """Return the state after t more tokens (b, t, d). Only the self-attention keeps a state of them."""
        end = state.length + x.shape[1]
        x = x + state.positions[state.length : end]  # (b, t, d)
        return state._replace(length=end, self_attention=prefilled(self.self_attention, x, state.self_attention))

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why an attention inside cannot run the case, or None.

        The self-attention must support a causal mask, and the cross-attention a source.
        """
        layer = inside(case)
        of_source = {
            "mask": case.mask if case.mask == "padding" else "none",
            "kv_len": case.kv_len or case.seq_len,
        }
        of_self = replace(case, mask="causal", padding_fraction=0.0, kv_len=0)
        return refusal(layer, of_self) or refusal(over_source(layer), replace(case, **of_source))
