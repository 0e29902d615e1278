"""Registry entries of attention without projections. Importing this file does not import torch."""

from impls.impl import Impl

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
