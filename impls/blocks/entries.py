"""The blocks around each attention rung of ours. Importing this file does not import torch.

Work is that of the attentions and of the feed-forward network, 16nd², summed; a decoder's source has n tokens too.
Kernels of other packages (impls/adapters) are measured by themselves: their blocks could be checked only where those
are installed, and would differ from the ones here in nothing but the kernel.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from impls.attention.compiled_entries import COMPILED_ATTENTION
from impls.attention.entries import ATTENTION
from impls.attention.linear.entries import LINEAR
from impls.impl import Impl

# The mathematics that takes a source, and what a token's work is less by in decoding: what is made of the source (keys
# and values, and of linear attention the state) is there already.
_OVER_A_SOURCE = {
    "impls.attention.reference:AttentionReference": "−4d²",
    "impls.attention.single_reference:SingleHeadReference": "−4d²",
    "impls.attention.gqa_reference:GroupedQueryReference": "−d²",
    "impls.attention.linear.reference:LinearAttentionReference": "−4d² − 2d²/h",
}
# That which is causal by nature, so that the encoder block is too.
_CAUSAL = ("impls.attention.linear.reference:CausalLinearAttentionReference",)
_STANDS_IN_BLOCKS = (*_OVER_A_SOURCE, *_CAUSAL, "impls.attention.window_reference:WindowReference")

# In a decoder it looks over the source where the rung cannot: STAND_IN of impls/blocks/rung.py.
_FUSED = next(rung for rung in ATTENTION if rung.name == "attention.fused")

# What a rung that can do without a causal mask costs under one, where that is something else.
_CAUSALLY: dict[str, dict[str, Any]] = {
    # They leave out blocks of work, as no formula in n says exactly.
    "attention.chunked": {"work": "", "work_train": ""},
    "attention.flex": {"work": "", "work_train": ""},
    # Blocks of 32 queries against 64 keys, not 96.
    "attention.window": {"work": "8nd² + 256nd", "work_train": "24nd² + 768nd"},
    # There is no sum that all queries share: scores are written out, as by attention.packed.
    "attention.linear.parallel": {
        "work": "8nd² + 4n²d",
        "work_train": "24nd² + 12n²d",
        "memory": "hn² + nd + d²/h",
    },
}


def blocks(rungs: Iterable[Impl]) -> tuple[Impl, ...]:
    """An encoder and a decoder block around every rung whose mathematics is known here."""
    known = [rung for rung in rungs if rung.reference in _STANDS_IN_BLOCKS]
    return (*map(_encoder, known), *map(_decoder, known))


def _encoder(rung: Impl) -> Impl:
    causal = rung.reference in _CAUSAL
    return replace(
        rung,
        name=rung.name.replace("attention", "encoder", 1),
        target="impls.blocks.causal_encoder:CausalEncoder" if causal else "impls.blocks.encoder:Encoder",
        reference=f"impls.blocks.reference:{'Causal' if causal else ''}EncoderReference",
        summary=f"encoder block around {rung.name}{', causal' if causal else ''}",
        work=summed(rung.work, "16nd²"),
        work_train=summed(rung.work_train, "48nd²"),
        work_decode=summed(rung.work_decode, "16d²") if causal else "",
        kind="",
        options={"attention": rung.target, "attention_options": rung.options},
        reference_options={"attention": rung.reference, "attention_options": rung.reference_options},
    )


def _decoder(rung: Impl) -> Impl:
    itself = replace(rung, **_CAUSALLY.get(rung.name, {}))
    hybrid = rung.reference not in _OVER_A_SOURCE
    cross = _FUSED if hybrid else rung
    at_hand = _OVER_A_SOURCE[cross.reference]
    options = {"attention": rung.reference, "attention_options": rung.reference_options}
    return replace(
        _encoder(itself),
        name=rung.name.replace("attention", "decoder", 1),
        target="impls.blocks.decoder:Decoder",
        reference="impls.blocks.reference:DecoderReference",
        summary=f"decoder block around {rung.name}, causal and over a source" + f", that by {cross.name}" * hybrid,
        work=summed(itself.work, cross.work, "16nd²"),
        work_train=summed(itself.work_train, cross.work_train, "48nd²"),
        work_decode=summed(rung.work_decode, cross.work_decode, "16d²", at_hand),
        reference_options=options | ({"cross_attention": cross.reference} if hybrid else {}),
    )


def summed(*claims: str) -> str:
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
