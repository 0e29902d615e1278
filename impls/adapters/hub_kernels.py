"""Attention kernels that the kernels package loads from the Hugging Face Hub, without projections.

    softmax(Q Kᵀ / √head_dim) V   block by block, on the GPU's tensor cores

Dao 2023, "FlashAttention-2"; Shah et al. 2024, "FlashAttention-3". A measurement downloads nothing: load the kernel
once before, with `python -c "from kernels import get_kernel; get_kernel('kernels-community/flash-attn2', version=1)"`.
"""

import importlib
import os
from functools import cache
from typing import Any, ClassVar

from torch import Tensor

from impls.adapters.packages import refusal
from impls.sdpa.layers import PackedInput

# The version branch of the kernels on the Hub.
_VERSION = 1
_LARGEST_HEAD = 256
# What `get_kernel` raises offline for a kernel that the cache lacks, depending on the package's version.
_NOT_LOADED = (ValueError, FileNotFoundError, ConnectionError)


def _load(kernel: str) -> Any:
    """Return the module of a kernel that was loaded once before.

    Raises one of `_NOT_LOADED` if it was not.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the package is imported
    return importlib.import_module("kernels").get_kernel(f"kernels-community/{kernel}", version=_VERSION)


@cache  # a process tries many sizes of a case, and the package logs each attempt
def is_loaded(kernel: str) -> bool:
    """Whether the kernel can be used offline."""
    try:
        _load(kernel)
    except _NOT_LOADED:
        return False
    return True


class HubFlashAttention(PackedInput):
    """`flash_attn_func` of the repository `kernels-community/{kernel}`: (b, n, 3d) -> (b, n, d)."""

    kernel: ClassVar[str]

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.flash_attn_func = _load(self.kernel).flash_attn_func

    @classmethod
    def supports(cls, case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        if case.d_model // case.num_heads > _LARGEST_HEAD:
            return f"flash attention has heads of {_LARGEST_HEAD} at most, not {case.d_model // case.num_heads}"
        reason = refusal(case, "kernels", "kernels", ("float16", "bfloat16"))
        if reason is None and not is_loaded(cls.kernel):
            call = f"get_kernel('kernels-community/{cls.kernel}', version={_VERSION})"
            reason = f'its kernel is not loaded: python -c "from kernels import get_kernel; {call}"'
        return reason

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        q, k, v = (heads.transpose(1, 2) for heads in self.unpack(x))  # (b, n, h, head_dim) each
        output = self.flash_attn_func(q, k, v, causal=is_causal)
        heads: Tensor = output[0] if isinstance(output, tuple) else output  # some versions return sums as well
        return heads.flatten(2)  # (b, n, d)


class HubFlashAttention2(HubFlashAttention):
    """FlashAttention-2 from the Hub: (b, n, 3d) -> (b, n, d)."""

    kernel = "flash-attn2"


class HubFlashAttention3(HubFlashAttention):
    """FlashAttention-3 from the Hub: (b, n, 3d) -> (b, n, d)."""

    kernel = "flash-attn3"
