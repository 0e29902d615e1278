"""All layers that the project ships, as data. Importing this file does not import torch.

To add a layer, write its file and add an entry to the `entries.py` beside it. Nothing else has to change.
"""

from impls.adapters.entries import ADAPTERS
from impls.attention.compiled_entries import COMPILED_ATTENTION
from impls.attention.entries import ATTENTION
from impls.attention.linear.entries import LINEAR
from impls.attention.uncached_entries import UNCACHED
from impls.blocks.entries import BLOCKS
from impls.blocks.stack_entries import STACKS
from impls.conv.entries import CONV
from impls.impl import Impl
from impls.rnn.compiled_entries import COMPILED_RNN
from impls.rnn.entries import RNN
from impls.sdpa.entries import SDPA

__all__ = ["IMPLS", "Impl"]

IMPLS: dict[str, Impl] = {
    impl.name: impl
    for rungs in (
        *(RNN, COMPILED_RNN),
        *(ATTENTION, COMPILED_ATTENTION, UNCACHED, LINEAR, SDPA),
        *(CONV, ADAPTERS, BLOCKS, STACKS),
    )
    for impl in rungs
}
