"""Six encoder blocks in a row, around three rungs. Importing this file does not import torch.

Around these alone: what a stack costs beside a block is the same whatever the rung, and there is one here for each
order of memory.
"""

from dataclasses import replace

from impls.blocks.entries import BLOCKS, summed
from impls.impl import Impl

_LAYERS = 6
_AROUND = ("packed", "fused", "linear.parallel")


def _stack(block: Impl) -> Impl:
    """Six times the work, and by order the memory of one block: in a forward pass the next uses what it has freed."""
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
