"""Registry entries of the attention layers whose first call compiles. Importing this file does not import torch."""

from impls.impl import Impl

_REFERENCE = "impls.attention.reference:AttentionReference"

COMPILED_ATTENTION = (
    Impl(
        "attention.compiled",
        "impls.attention.compiled:CompiledAttention",
        _REFERENCE,
        "packed, as one program that torch compiles",
        work="8nd² + 4n²d",
        work_train="24nd² + 12n²d",
        work_decode="8d² + 4nd",
        depth="1",
        path="1",
        kind="self-attention",
        compiled=True,
    ),
    Impl(
        "attention.flex",
        "impls.attention.flex:FlexAttention",
        _REFERENCE,
        "FlexAttention: a fused kernel compiled for its mask",
        work="8nd² + 4n²d",
        work_train="24nd² + 18n²d",  # the backward pass has 7 products: see harness/trial/facts/flex.py
        memory="nd",
        depth="1",
        path="1",
        kind="self-attention",
        compiled=True,
    ),
)
