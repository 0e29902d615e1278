"""Registry entry of the convolution. Importing this file does not import torch."""

from impls.impl import Impl

CONV = (
    Impl(
        "conv.conv1d",
        "impls.conv.conv1d:Conv1d",
        "impls.conv.conv1d:ConvReference",
        "a convolution over the sequence, kernel of 3",
        # For a kernel of k: 2knd², 6knd² and 2kd². Products with the zeros beyond both ends are counted, too. No claim
        # for `path`: log_k n in table 1 is for a stack of dilated layers, and one layer does not connect both ends.
        work="6nd²",
        work_train="18nd²",
        work_decode="6d²",
        memory="nd",
        depth="1",
        kind="convolutional",
        has_heads=False,
    ),
)
