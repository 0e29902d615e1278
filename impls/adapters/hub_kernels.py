"""Attention kernels that the kernels package loads from the Hugging Face Hub, without projections.

    softmax(Q Kᵀ / √head_dim) V   block by block, on the GPU's tensor cores

Dao 2023, "FlashAttention-2"; Shah et al. 2024, "FlashAttention-3". A measurement downloads nothing: load the kernel
once before, with `python -c "from kernels import get_kernel; get_kernel('kernels-community/flash-attn2', version=1)"`.
"""

import importlib
import os
from typing import Any

from torch import Tensor

from impls.adapters.packages import refusal
from impls.sdpa.layers import PackedInput

# The version branch of the kernels on the Hub.
_VERSION = 1
_LARGEST_HEAD = 256


class HubFlashAttention(PackedInput):
    """`flash_attn_func` of the repository `kernels-community/{kernel}`: (b, n, 3d) -> (b, n, d)."""

    def __init__(self, d_model: int, num_heads: int, kernel: str) -> None:
        super().__init__(d_model, num_heads)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the package is imported
        kernels = importlib.import_module("kernels")
        self.flash_attn_func = kernels.get_kernel(f"kernels-community/{kernel}", version=_VERSION).flash_attn_func

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        if case.d_model // case.num_heads > _LARGEST_HEAD:
            return f"flash attention has heads of {_LARGEST_HEAD} at most, not {case.d_model // case.num_heads}"
        return refusal(case, "kernels", "kernels", ("float16", "bfloat16"))

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        q, k, v = (heads.transpose(1, 2) for heads in self.unpack(x))  # (b, n, h, head_dim) each
        output = self.flash_attn_func(q, k, v, causal=is_causal)
        heads: Tensor = output[0] if isinstance(output, tuple) else output  # some versions return sums as well
        return heads.flatten(2)  # (b, n, d)
