"""Registry entries of the layers that need another package.

Importing this file imports neither that package nor torch.
"""

from impls.impl import Impl

_SOFTMAX = "impls.attention.reference:AttentionReference"
_LINEAR = "impls.attention.linear:CausalLinearAttentionReference"
_PACKED = "impls.sdpa.layers:SdpaReference"

ADAPTERS = (
    Impl(
        "attention.flash_attn",
        "impls.adapters.packages:FlashAttention",
        _SOFTMAX,
        "the kernel of the flash-attn package",
        work="8nd² + 4n²d",
        work_train="24nd² + 14n²d",
        work_decode="8d² + 4nd",
        memory="nd",
        depth="1",
        path="1",
        kind="self-attention",
        package="flash_attn",
    ),
    Impl(
        "attention.xformers",
        "impls.adapters.packages:XformersAttention",
        _SOFTMAX,
        "the kernel that the xformers package chooses",
        work="8nd² + 4n²d",
        work_train="24nd² + 14n²d",
        work_decode="8d² + 4nd",
        memory="nd",
        depth="1",
        path="1",
        kind="self-attention",
        package="xformers",
    ),
    Impl(
        "attention.linear.fla",
        "impls.adapters.packages:FlaLinearAttention",
        _LINEAR,
        "linear attention by the flash-linear-attention package",
        memory="nd + nd²/h",
        compiled=True,
        package="fla",
    ),
)

# Functions that run on any device.
TRANSFORMERS = (
    Impl(
        "sdpa.transformers.eager",
        "impls.adapters.transformers_functions:TransformersFunction",
        _PACKED,
        "attention of the transformers package in plain operations, as attn_implementation=eager",
        work="4n²d",
        work_train="12n²d",
        memory="hn² + nd",
        depth="1",
        path="1",
        package="transformers",
        options={"function": "eager"},
    ),
    Impl(
        "sdpa.transformers.sdpa",
        "impls.adapters.transformers_functions:TransformersFunction",
        _PACKED,
        "the same by torch's kernel, as attn_implementation=sdpa",
        work="4n²d",
        work_train="14n²d",
        memory="nd",
        depth="1",
        path="1",
        package="transformers",
        options={"function": "sdpa"},
    ),
)
