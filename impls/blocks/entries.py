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
from impls.registry_entry import Impl

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
_FUSED = next(layer for layer in ATTENTION if layer.name == "attention.fused")

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


def blocks(layers: Iterable[Impl]) -> tuple[Impl, ...]:
    """Return an encoder and a decoder block around every layer whose reference is known here."""
    known = [_at_defaults(layer) for layer in layers if layer.reference in _STANDS_IN_BLOCKS]
    return (*map(_encoder, known), *map(_decoder, known))


def _at_defaults(layer: Impl) -> Impl:
    """Return the entry with the defaults of its own axes in place of their letters: a block does not take them."""
    claims = {name: getattr(layer, name) for name in ("work", "work_train", "work_decode", "memory")}
    for letter, size in layer.axes.values():
        claims = {name: _at_size(claim, letter, size) for name, claim in claims.items()}
    return replace(layer, axes={}, **claims)


def _at_size(claim: str, letter: str, size: int) -> str:
    """Return a claim with a size in place of a letter: `4nwd + w²` at w = 8 is `4n8d + 64`.

    An order leaves constants free, and only orders are divided by such a letter.
    """

    def product(found: re.Match[str]) -> str:
        number, square = found.groups()
        return str(int(number or 1) * (size**2 if square else size))

    return re.sub(rf"(\d*){letter}(²?)", product, claim.replace(f"/{letter}", ""))


def _encoder(layer: Impl) -> Impl:
    causal = layer.reference in _CAUSAL
    return replace(
        layer,
        name=layer.name.replace("attention", "encoder", 1),
        target="impls.blocks.blocks:CausalEncoder" if causal else "impls.blocks.blocks:Encoder",
        reference=f"impls.blocks.reference:{'Causal' if causal else ''}EncoderReference",
        summary=f"encoder block around {layer.name}{', causal' if causal else ''}",
        work=summed(layer.work, "16nd²"),
        work_train=summed(layer.work_train, "48nd²"),
        work_decode=summed(layer.work_decode, "16d²") if causal else "",
        kind="",
        options={"attention": layer.target, "attention_options": layer.options},
        reference_options={"attention": layer.reference, "attention_options": layer.reference_options},
    )


def _decoder(layer: Impl) -> Impl:
    itself = replace(layer, **_CAUSALLY.get(layer.name, {}))
    hybrid = layer.reference not in _OVER_A_SOURCE
    cross = _FUSED if hybrid else layer
    at_hand = _OVER_A_SOURCE[cross.reference]
    options = {"attention": layer.reference, "attention_options": layer.reference_options}
    return replace(
        _encoder(itself),
        name=layer.name.replace("attention", "decoder", 1),
        target="impls.blocks.blocks:Decoder",
        reference="impls.blocks.reference:DecoderReference",
        summary=f"decoder block around {layer.name}, causal and over a source" + f", that by {cross.name}" * hybrid,
        work=summed(itself.work, cross.work, "16nd²"),
        work_train=summed(itself.work_train, cross.work_train, "48nd²"),
        work_decode=summed(layer.work_decode, cross.work_decode, "16d²", at_hand),
        reference_options=options | ({"cross_attention": cross.reference} if hybrid else {}),
    )


def summed(*claims: str) -> str:
    """Return the formulas joined to a sum, whose like terms the reader adds up; empty if one of them is empty."""
    return " + ".join(claims).replace("+ −", "− ") if all(claims) else ""


BLOCKS = blocks((*ATTENTION, *COMPILED_ATTENTION, *LINEAR))


# Stacks of six encoder blocks. Three attention layers suffice: what a stack costs beyond one block is the same for
# every layer. The three cover each order of memory once.
_LAYERS = 6
_AROUND = ("packed", "fused", "linear.parallel")


def _stack(block: Impl) -> Impl:
    """Return the stack's entry: L times the work, but the memory order of one block.

    In a forward pass, each block reuses the memory that the last one freed.
    """
    attention = block.name.removeprefix("encoder.")
    return replace(
        block,
        name=f"encoder{_LAYERS}.{attention}",
        target="impls.blocks.stack:EncoderStack",
        reference="impls.blocks.reference:EncoderStackReference",
        summary=f"{_LAYERS} encoder blocks in a row around attention.{attention}",
        work=_of_all_layers(block.work),
        work_train=_of_all_layers(block.work_train),
        axes={"layers": ("L", _LAYERS)},
        options=block.options | {"layers": _LAYERS},
        reference_options=block.reference_options | {"layers": _LAYERS},
    )


def _of_all_layers(claim: str) -> str:
    return " + ".join(f"L·{term}" for term in claim.split(" + "))


STACKS = tuple(_stack(block) for block in BLOCKS if block.name.removeprefix("encoder.") in _AROUND)
