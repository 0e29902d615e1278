"""Registry entries of six stacked encoder blocks, around three attention layers.

Importing this file does not import torch.

Three layers suffice: what a stack costs beyond one block is the same for every layer. The three cover each order of
memory once.
"""

from dataclasses import replace

from impls.blocks.entries import BLOCKS, summed
from impls.impl import Impl

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
        reference="impls.blocks.stack_reference:EncoderStackReference",
        summary=f"{_LAYERS} encoder blocks in a row around attention.{rung}",
        work=summed(*[block.work] * _LAYERS),
        work_train=summed(*[block.work_train] * _LAYERS),
        options=block.options | {"layers": _LAYERS},
        reference_options=block.reference_options | {"layers": _LAYERS},
    )


STACKS = tuple(_stack(block) for block in BLOCKS if block.name.removeprefix("encoder.") in _AROUND)
