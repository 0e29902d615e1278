"""Attention that decodes without a cache. Importing this file does not import torch.

It stands apart from the other rungs since there are no blocks around it: in all but decoding they would be those of
`attention.fused`, and a block of a model that decodes has a cache.
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
        # As every claim, without a mask. Each step is a pass under a causal one, which leaves 8nd² + 2n²d + 2nd.
        work_decode="8nd² + 4n²d",
        memory="nd",
        depth="1",
        path="1",
        # No row of table 1, which it would only repeat, and whose inference rests on a cache.
        kind="",
    ),
)
