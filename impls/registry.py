"""All layers that the project ships, as data. Importing this file does not import torch.

To add a layer, write its class and add an entry to the `entries.py` of the same folder. Nothing else has to change.
"""

from impls.adapters.entries import ADAPTERS, OF_KERNELS, TRANSFORMERS
from impls.attention.entries import ATTENTION, COMPILED_ATTENTION, LINEAR, SPARSE_AND_LATENT, UNCACHED
from impls.blocks.entries import BLOCKS, STACKS
from impls.conv.entries import CONV
from impls.linear.entries import LINEAR_TIME
from impls.registry_entry import Impl
from impls.rnn.entries import COMPILED_RNN, RNN
from impls.sdpa.entries import SDPA, UNEQUAL_LENGTHS

__all__ = ["IMPLS", "Impl"]

IMPLS: dict[str, Impl] = {
    impl.name: impl
    for entries in (
        *(RNN, COMPILED_RNN),
        *(ATTENTION, COMPILED_ATTENTION, UNCACHED, SPARSE_AND_LATENT, LINEAR, LINEAR_TIME, SDPA),
        *(UNEQUAL_LENGTHS, CONV, ADAPTERS, TRANSFORMERS, OF_KERNELS, BLOCKS, STACKS),
    )
    for impl in entries
}
