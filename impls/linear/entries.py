"""Registry entries of the layers with a matrix state. Importing this file does not import torch."""

from impls.impl import Claims, Impl

_SSD = "impls.linear.reference:SSDReference"

# A chunk waits for the state of the one before it.
_SEQUENTIAL: Claims = {"depth": "n", "path": "n"}

# The recurrent form of each layer comes first.
LINEAR_TIME = (
    Impl(
        "linear.ssd.recurrent",
        "impls.linear.ssd:RecurrentSSD",
        _SSD,
        "Mamba-2's layer (SSD), one token after another",
        # A state of 64 rows for each head.
        work="4nd² + 512nd + 2hnd",
        work_train="12nd² + 1536nd + 6hnd",
        work_decode="4d² + 512d + 2hd",
        memory="nd",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.ssd.chunked",
        "impls.linear.ssd:ChunkedSSD",
        _SSD,
        "the same in chunks of 64",
        # The heads share C Bᵀ: 2 · 64 · 64 for each token.
        work="4nd² + 640nd + 2hnd + 8192n",
        work_train="12nd² + 1920nd + 6hnd + 24576n",
        work_decode="4d² + 512d + 2hd",
        memory="nd + hn",
        **_SEQUENTIAL,
    ),
)
