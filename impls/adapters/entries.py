"""Registry entries of the layers that need another package.

Importing this file imports neither that package nor torch.
"""

from impls.impl import Impl

_RECURRENCE = "impls.adapters.fla_operations:Recurrence"
_SOFTMAX = "impls.attention.reference:AttentionReference"
_LINEAR = "impls.attention.linear:CausalLinearAttentionReference"
_OF_A_MODEL = "impls.adapters.transformers_functions:model_attention"
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

# Functions of q, k and v that run on any device.
TRANSFORMERS = (
    Impl(
        "sdpa.transformers.eager",
        "impls.adapters.transformers_functions:eager",
        _OF_A_MODEL,
        "attention of the transformers package in plain operations, as attn_implementation=eager",
        work="4n²d",
        work_train="12n²d",
        work_decode="4nd",
        memory="hn² + nd",
        depth="1",
        path="1",
        package="transformers",
    ),
    Impl(
        "sdpa.transformers.sdpa",
        "impls.adapters.transformers_functions:sdpa",
        _OF_A_MODEL,
        "the same by torch's kernel, as attn_implementation=sdpa",
        work="4n²d",
        work_train="14n²d",
        work_decode="4nd",
        memory="nd",
        depth="1",
        path="1",
        package="transformers",
    ),
    Impl(
        "sdpa.transformers.flex",
        "impls.adapters.transformers_functions:flex",
        _OF_A_MODEL,
        "the same by FlexAttention, as attn_implementation=flex_attention",
        memory="nd",
        depth="1",
        path="1",
        compiled=True,
        package="transformers",
    ),
)


# Kernels of the `kernels` package.
HUB_KERNELS = tuple(
    Impl(
        f"sdpa.hub.flash{version}",
        f"impls.adapters.hub_kernels:HubFlashAttention{version}",
        _PACKED,
        f"flash-attn{version} of the kernels package",
        memory="nd",
        depth="1",
        path="1",
        package="kernels",
    )
    for version in (2, 3)
)


def _operation(kind: str, form: str, prefix: str, what: str) -> Impl:
    """The entry of an operation of flash-linear-attention, of which no work is claimed: its kernels hide it."""
    # The recurrent form of the gated delta rule has no backward pass.
    forward_only = (kind, form) == ("gated_delta_rule", "recurrent")
    return Impl(
        f"fla.{kind}.{form}",
        f"impls.adapters.fla_operations:{'ForwardOnly' if forward_only else 'FlaOperation'}",
        _RECURRENCE,
        f"{what}, {form}, by flash-linear-attention",
        memory={"chunk": "nd + nd²/h", "parallel": "nd", "recurrent": "nd + d²/h"}[form],
        compiled=True,
        package="fla",
        options={"operation": f"{prefix}_{kind}"},
        reference_options={"kind": kind},
    )


_FORMS = {"chunk": "chunk", "parallel": "parallel", "recurrent": "fused_recurrent"}
_KINDS = {
    "linear_attn": ("linear attention without feature map and division", ("chunk", "recurrent")),
    "retention": ("retention, a fixed decay for each head", ("chunk", "parallel", "recurrent")),
    "simple_gla": ("linear attention with a gate for each head", ("chunk", "parallel", "recurrent")),
    "gla": ("linear attention with a gate for each channel", ("chunk", "recurrent")),
    "delta_rule": ("the delta rule", ("chunk", "recurrent")),
    "gated_delta_rule": ("the delta rule with a gate for each head", ("chunk", "recurrent")),
}
FLA_OPERATIONS = tuple(
    _operation(kind, form, _FORMS[form], what) for kind, (what, forms) in _KINDS.items() for form in forms
)
