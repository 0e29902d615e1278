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

__all__ = ["IMPLS", "KINDS_OF_BLOCKS", "OPS_A_TOKEN", "Impl"]

IMPLS: dict[str, Impl] = {
    impl.name: impl
    for entries in (
        *(RNN, COMPILED_RNN),
        *(ATTENTION, COMPILED_ATTENTION, UNCACHED, SPARSE_AND_LATENT, LINEAR, LINEAR_TIME, SDPA),
        *(UNEQUAL_LENGTHS, CONV, ADAPTERS, TRANSFORMERS, OF_KERNELS, BLOCKS, STACKS),
    )
    for impl in entries
}

# Operations for each token of a reference that loops over tokens, as tests/core/run/test_reference_time.py counts them.
# References are written for float64 and not for speed: these take longer than the layer itself. Others take a time not
# worth counting, or compute a few rows alone.
OPS_A_TOKEN = {
    "impls.rnn.reference:ElmanReference": 9,
    "impls.rnn.reference:GRUReference": 54,
    "impls.rnn.reference:LSTMReference": 70,
    "impls.rnn.reference:MinGRUReference": 29,
    "impls.rnn.reference:MinLSTMReference": 41,
    "impls.rnn.reference:LinearScanReference": 16,
    "impls.linear.reference:SSDReference": 41,
    "impls.linear.reference:GatedDeltaReference": 52,
    "impls.linear.reference:MLSTMReference": 61,
    "impls.linear.reference:RWKV7Reference": 156,
}
# A block exists around every attention layer that fits, so all blocks of a kind share one line.
KINDS_OF_BLOCKS = {
    "encoder": "attention, feed-forward of 4d, residuals, norms, positions",
    "decoder": "the same, causal, and with attention over a source",
    "encoder6": "six blocks of the encoder in a row, positions in the first alone",
}
