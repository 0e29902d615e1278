"""Registry entries of the layers that need another package.

Importing this file imports neither that package nor torch.
"""

from impls.adapters.kernel_table import KERNELS, Kernel
from impls.registry_entry import Impl

_SOFTMAX = "impls.attention.reference:AttentionReference"
_LINEAR = "impls.attention.linear:CausalLinearAttentionReference"
_OF_A_MODEL = "impls.adapters.transformers_functions:model_attention"

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


def entry_of(name: str, kernel: Kernel) -> Impl:
    """The entry of a line of the table, of which no work is claimed: its kernel hides it."""
    is_softmax = kernel.called.startswith("softmax")
    return Impl(
        name,
        f"impls.adapters.kernels:{kernel.called}",
        kernel.reference,
        kernel.what,
        memory=kernel.memory,
        depth="1" if is_softmax else "",
        path="1" if is_softmax else "",
        compiled=kernel.package == "fla",
        package=kernel.package,
        options={"kernel": name},
    )


OF_KERNELS = tuple(entry_of(name, kernel) for name, kernel in KERNELS.items())
