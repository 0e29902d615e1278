"""Registry entries of linear attention, each form building on the one before.

Importing this file does not import torch.
"""

from impls.impl import Impl

_REFERENCE = "impls.attention.linear.reference:LinearAttentionReference"
_CAUSAL = "impls.attention.linear.reference:CausalLinearAttentionReference"

LINEAR = (
    Impl(
        "attention.linear.parallel",
        "impls.attention.linear.parallel:ParallelLinearAttention",
        _REFERENCE,
        "linear attention, all tokens at once",
        # Without a mask. Under a causal mask, the work is that of attention.packed.
        work="8nd² + 4nd²/h",
        work_train="24nd² + 12nd²/h",
        work_decode="8d² + 4d²/h",
        memory="nd + d²/h",
        depth="1",
        path="1",
    ),
    Impl(
        "attention.linear.recurrent",
        "impls.attention.linear.recurrent:RecurrentLinearAttention",
        _CAUSAL,
        "the same, causal, as a loop over tokens",
        work="8nd² + 4nd²/h",
        # The backward pass recomputes the states instead of keeping them: 6 products of 2nd²/h instead of 4.
        work_train="24nd² + 16nd²/h",
        work_decode="8d² + 4d²/h",
        memory="nd + d²/h",
        depth="n",
        path="n",
    ),
    Impl(
        "attention.linear.chunked",
        "impls.attention.linear.chunked:ChunkedLinearAttention",
        _CAUSAL,
        "the same, causal, in chunks of 64",
        # No claim for `work`: it is 8nd² + 256nd + 4nd²/h if n is a multiple of 64, and else no polynomial in n.
        work_decode="8d² + 4d²/h",
        memory="nd + hn + nd²/h",
        depth="1",
        path="1",
    ),
)
