"""Registry entries of the blocks around each of the project's attention layers, and of stacks of encoder blocks.

Importing this file does not import torch.

`work` is the sum over the attentions and the feed-forward network (16nd²). The source of a decoder also has n tokens.
Kernels of other packages (impls/adapters) are measured without blocks. Such blocks could be verified only where the
packages are installed, and would differ from the blocks here only in the kernel.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from impls.attention.entries import ATTENTION, COMPILED_ATTENTION, LINEAR
from impls.impl import Impl

# The references that take a source, and the FLOPs that decoding saves for each token: the keys and values of the source
# (and for linear attention, the state) have already been computed.
_OVER_A_SOURCE = {
    "impls.attention.reference:AttentionReference": "−4d²",
    "impls.attention.reference:SingleHeadReference": "−4d²",
    "impls.attention.reference:GroupedQueryReference": "−d²",
    "impls.attention.linear:LinearAttentionReference": "−4d² − 2d²/h",
}
# References that are causal by nature, so that the encoder block is causal, too.
_CAUSAL = ("impls.attention.linear:CausalLinearAttentionReference",)
_STANDS_IN_BLOCKS = (*_OVER_A_SOURCE, *_CAUSAL, "impls.attention.reference:WindowReference")

# The cross-attention of a decoder whose own layer takes no source: STAND_IN of impls/blocks/blocks.py.
_FUSED = next(rung for rung in ATTENTION if rung.name == "attention.fused")

# Costs under a causal mask, for layers where these differ from the costs without one.
_CAUSALLY: dict[str, dict[str, Any]] = {
    # These skip masked blocks, and no formula in n gives the remaining work exactly.
    "attention.chunked": {"work": "", "work_train": ""},
    "attention.flex": {"work": "", "work_train": ""},
    # Blocks of 32 queries against 64 keys, not 96.
    "attention.window": {"work": "8nd² + 256nd", "work_train": "24nd² + 768nd"},
    # No sum is shared by all queries: the scores are written to memory, as by attention.packed.
    "attention.linear.parallel": {
        "work": "8nd² + 4n²d",
        "work_train": "24nd² + 12n²d",
        "memory": "hn² + nd + d²/h",
    },
}


def blocks(rungs: Iterable[Impl]) -> tuple[Impl, ...]:
    """Return an encoder and a decoder block around every layer whose reference is known here."""
    known = [rung for rung in rungs if rung.reference in _STANDS_IN_BLOCKS]
    return (*map(_encoder, known), *map(_decoder, known))


def _encoder(rung: Impl) -> Impl:
    causal = rung.reference in _CAUSAL
    return replace(
        rung,
        name=rung.name.replace("attention", "encoder", 1),
        target="impls.blocks.blocks:CausalEncoder" if causal else "impls.blocks.blocks:Encoder",
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
        target="impls.blocks.blocks:Decoder",
        reference="impls.blocks.reference:DecoderReference",
        summary=f"decoder block around {rung.name}, causal and over a source" + f", that by {cross.name}" * hybrid,
        work=summed(itself.work, cross.work, "16nd²"),
        work_train=summed(itself.work_train, cross.work_train, "48nd²"),
        work_decode=summed(rung.work_decode, cross.work_decode, "16d²", at_hand),
        reference_options=options | ({"cross_attention": cross.reference} if hybrid else {}),
    )


def summed(*claims: str) -> str:
    """Return the sum of formulas: `8nd² + 4n²d` and `16nd²` make `24nd² + 4n²d`.

    An empty formula makes the sum empty.
    """
    if not all(claims):
        return ""
    total: dict[str, int] = {}
    for claim in claims:
        for sign, number, factors in re.findall(r"([−-]?)\s*(\d*)([^\s\d+−-]+(?: log n)?)", claim):
            total[factors] = total.get(factors, 0) + int(number or 1) * (-1 if sign else 1)
    first, *rest = [(factors, number) for factors, number in total.items() if number]
    return f"{first[1]}{first[0]}" + "".join(f" {'+' if n > 0 else '−'} {abs(n)}{factors}" for factors, n in rest)


BLOCKS = blocks((*ATTENTION, *COMPILED_ATTENTION, *LINEAR))


# Stacks of six encoder blocks. Three attention layers suffice: what a stack costs beyond one block is the same for
# every layer. The three cover each order of memory once.
_LAYERS = 6
_AROUND = ("packed", "fused", "linear.parallel")


def _stack(block: Impl) -> Impl:
    """Return the stack's entry: six times the work, but the memory order of one block.

    In a forward pass, each block reuses the memory that the last one freed.
    """
    rung = block.name.removeprefix("encoder.")
    return replace(
        block,
        name=f"encoder{_LAYERS}.{rung}",
        target="impls.blocks.stack:EncoderStack",
        reference="impls.blocks.reference:EncoderStackReference",
        summary=f"{_LAYERS} encoder blocks in a row around attention.{rung}",
        work=summed(*[block.work] * _LAYERS),
        work_train=summed(*[block.work_train] * _LAYERS),
        options=block.options | {"layers": _LAYERS},
        reference_options=block.reference_options | {"layers": _LAYERS},
    )


STACKS = tuple(_stack(block) for block in BLOCKS if block.name.removeprefix("encoder.") in _AROUND)
