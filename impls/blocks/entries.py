"""The blocks around each attention rung that can stand in one. Importing this file does not import torch.

Work is that of the attentions and of the feed-forward network, 16nd², summed; a decoder's source has n tokens too.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from impls.attention.compiled_entries import COMPILED_ATTENTION
from impls.attention.entries import ATTENTION
from impls.attention.linear.entries import LINEAR
from impls.impl import Impl

# The mathematics that a decoder can be made of, and what keys and values of one token cost: in decoding those of the
# source are there already.
_KEYS_AND_VALUES = {
    "impls.attention.reference:AttentionReference": "4d²",
    "impls.attention.gqa_reference:GroupedQueryReference": "d²",
}
# What has no notion of a source, or another order of work under a causal mask, stands in an encoder only.
_IN_ENCODERS = (
    *_KEYS_AND_VALUES,
    "impls.attention.window_reference:WindowReference",
    "impls.attention.linear.reference:LinearAttentionReference",
)
# Under a causal mask they leave out blocks of work, as no formula in n says exactly.
_LEAVE_OUT = ("attention.chunked", "attention.flex")


def blocks(rungs: Iterable[Impl]) -> tuple[Impl, ...]:
    """An encoder block around every rung with heads whose mathematics can stand in one; a decoder block likewise."""
    of_heads = [rung for rung in rungs if rung.has_heads]
    encoders = [rung for rung in of_heads if rung.reference in _IN_ENCODERS]
    decoders = [rung for rung in of_heads if rung.reference in _KEYS_AND_VALUES]
    return (*map(_encoder, encoders), *map(_decoder, decoders))


def _encoder(rung: Impl) -> Impl:
    return replace(
        rung,
        name=rung.name.replace("attention", "encoder", 1),
        target="impls.blocks.encoder:Encoder",
        reference="impls.blocks.reference:EncoderReference",
        summary=f"encoder block around {rung.name}",
        work=_sum(rung.work, "16nd²"),
        work_train=_sum(rung.work_train, "48nd²"),
        work_decode="",
        kind="",
        options={"attention": rung.target, "attention_options": rung.options},
        reference_options={"attention": rung.reference, "attention_options": rung.reference_options},
    )


def _decoder(rung: Impl) -> Impl:
    exact = rung.name not in _LEAVE_OUT
    keys_and_values = _KEYS_AND_VALUES[rung.reference]
    return replace(
        _encoder(rung),
        name=rung.name.replace("attention", "decoder", 1),
        target="impls.blocks.decoder:Decoder",
        reference="impls.blocks.reference:DecoderReference",
        summary=f"decoder block around {rung.name}, causal and over a source",
        work=_sum(rung.work, rung.work, "16nd²") if exact else "",
        work_train=_sum(rung.work_train, rung.work_train, "48nd²") if exact else "",
        work_decode=_sum(rung.work_decode, rung.work_decode, "16d²", f"−{keys_and_values}"),
    )


def _sum(*claims: str) -> str:
    """`8nd² + 4n²d` and `16nd²` make `24nd² + 4n²d`; of what is not claimed there is no sum."""
    if not all(claims):
        return ""
    total: dict[str, int] = {}
    for claim in claims:
        for sign, number, factors in re.findall(r"([−-]?)\s*(\d*)([^\s\d+−-]+(?: log n)?)", claim):
            total[factors] = total.get(factors, 0) + int(number or 1) * (-1 if sign else 1)
    first, *rest = [(factors, number) for factors, number in total.items() if number]
    return f"{first[1]}{first[0]}" + "".join(f" {'+' if n > 0 else '−'} {abs(n)}{factors}" for factors, n in rest)


BLOCKS = blocks((*ATTENTION, *COMPILED_ATTENTION, *LINEAR))
