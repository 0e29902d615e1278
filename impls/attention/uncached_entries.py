"""Registry entry of attention that decodes without a cache. Importing this file does not import torch.

The entry is separate from the other attention layers because no block is built around it. Except in decoding, such a
block would equal that of `attention.fused`, and a model's block decodes with a cache.
"""

from impls.impl import Impl

UNCACHED = (
    Impl(
        "attention.uncached",
        "impls.attention.uncached:UncachedAttention",
        "impls.attention.reference:AttentionReference",
        "fused, decoding by a pass over all tokens so far",
        work="8nd² + 4n²d",
        work_train="24nd² + 14n²d",
        # Without a mask, as in every claim. A step is a pass under a causal mask, which leaves 8nd² + 2n²d + 2nd.
        work_decode="8nd² + 4n²d",
        memory="nd",
        depth="1",
        path="1",
        # No row of table 1: it would duplicate one, and inference in that table assumes a cache.
        kind="",
    ),
)
