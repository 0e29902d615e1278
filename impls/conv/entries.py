"""Registry entry of the convolution. Importing this file does not import torch."""

from impls.registry_entry import Impl

CONV = (
    Impl(
        "conv.conv1d",
        "impls.conv.conv1d:Conv1d",
        "impls.conv.conv1d:ConvReference",
        "a convolution over the sequence, kernel of 3",
        # Products with the zeros beyond both ends are counted, too. No claim for `path`: log_k n in table 1 is for a
        # stack of dilated layers, and one layer does not connect both ends.
        work="2knd²",
        work_train="6knd²",
        work_decode="2kd²",
        axes={"kernel_size": ("k", 3)},
        # The unfolded input has k words for each word of it.
        memory="knd",
        depth="1",
        kind="convolutional",
        has_heads=False,
    ),
)
