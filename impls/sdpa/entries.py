"""Registry entries of attention without projections. Importing this file does not import torch."""

from impls.registry_entry import Impl

_REFERENCE = "impls.sdpa.layers:SdpaReference"

SDPA = (
    Impl(
        "sdpa.naive",
        "impls.sdpa.layers:NaiveSdpa",
        _REFERENCE,
        "attention without its projections, h scores in memory",
        work="4n²d",
        work_train="12n²d",
        memory="hn² + nd",
        depth="1",
        path="1",
        kind="self-attention",
    ),
    Impl(
        "sdpa.fused",
        "impls.sdpa.layers:FusedSdpa",
        _REFERENCE,
        "the same in one kernel, flash or the like, no scores in memory",
        work="4n²d",
        work_train="14n²d",
        memory="nd",
        depth="1",
        path="1",
        kind="self-attention",
    ),
    Impl(
        "sdpa.flash",
        "impls.sdpa.layers:FlashSdpa",
        _REFERENCE,
        "the same by the flash kernel alone",
        work="4n²d",
        work_train="14n²d",
        memory="nd",
        depth="1",
        path="1",
        kind="self-attention",
    ),
)

# Functions of packed sequences, and of a paged cache.
UNEQUAL_LENGTHS = (
    Impl(
        "sdpa.varlen",
        "impls.sdpa.packed:varlen",
        _REFERENCE,
        "packed sequences, a call of the kernel for each",
        work="4n²d",
        work_train="14n²d",
        memory="nd",
        depth="1",
        path="1",
    ),
    Impl(
        "sdpa.nested",
        "impls.sdpa.packed:nested",
        _REFERENCE,
        "packed sequences as a nested tensor of torch, whose operations cannot be counted",
        memory="hn² + nd",
        depth="1",
        path="1",
    ),
    Impl(
        "sdpa.document_mask",
        "impls.sdpa.packed:document_mask",
        _REFERENCE,
        "packed sequences as one, with a mask between them",
        memory="n² + nd",
        depth="1",
        path="1",
    ),
    Impl(
        "sdpa.document_mask.flex",
        "impls.sdpa.packed:flex_document_mask",
        _REFERENCE,
        "the same by FlexAttention, which skips blocks of two sequences",
        memory="nd",
        depth="1",
        path="1",
        compiled=True,
    ),
    Impl(
        "sdpa.paged",
        "impls.sdpa.paged:paged",
        "impls.sdpa.paged:paged_reference",
        "one token against a paged cache with a block table",
        work_decode="4nd",
        axes={"page_size": ("p", 16)},
        memory="nd",
    ),
)
