"""Every layer the project ships, as data. Importing this file does not import torch.

To add a layer: write its file, and its entry in the `entries.py` beside it. Nothing else needs to know.
"""

from impls.adapters.entries import ADAPTERS
from impls.attention.compiled_entries import COMPILED_ATTENTION
from impls.attention.entries import ATTENTION
from impls.attention.linear.entries import LINEAR
from impls.blocks.entries import BLOCKS
from impls.conv.entries import CONV
from impls.impl import Impl
from impls.rnn.compiled_entries import COMPILED_RNN
from impls.rnn.entries import RNN

__all__ = ["IMPLS", "Impl"]

IMPLS: dict[str, Impl] = {
    impl.name: impl
    for rungs in (RNN, COMPILED_RNN, ATTENTION, COMPILED_ATTENTION, LINEAR, CONV, ADAPTERS, BLOCKS)
    for impl in rungs
}
