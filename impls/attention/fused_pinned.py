"""Fused attention pinned to one kernel each, for comparison, and attention pinned to their `math` fallback.

    softmax(Q Kᵀ / √head_dim) V   by the kernel that the class names, or not at all

`flash`: Dao et al. 2022, "FlashAttention". `efficient`: Rabe & Staats 2021, "Self-attention Does Not Need O(n²)
Memory".
"""

from typing import Any

import torch

from impls.attention.fused import FusedAttention
from impls.attention.sdpa import CUDNN, EFFICIENT, FLASH, MATH

_HALF = ("float16", "bfloat16")
_AMPERE = (8, 0)


class FlashAttention(FusedAttention):
    """Attention by the flash kernel only."""

    backends = FLASH

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        The CPU kernel supports everything. The CUDA kernel supports half precision, heads of up to 256, and no mask
        except a causal one.
        """
        if case.device != "cuda":
            return None
        if case.mask == "padding":
            return "the flash kernel on CUDA takes no mask but a causal one"
        if case.d_model // case.num_heads > 256:
            return f"the flash kernel on CUDA takes heads of up to 256, not {case.d_model // case.num_heads}"
        return _half_on_ampere("flash", case)


class EfficientAttention(FusedAttention):
    """Attention by the memory-efficient kernel only."""

    backends = EFFICIENT

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None. CUDA only, no float64; bfloat16 needs compute capability 8.0."""
        if case.device != "cuda":
            return "the memory-efficient attention kernel runs on CUDA only"
        if case.dtype == "float64":
            return "the memory-efficient attention kernel does not compute in float64"
        return _half_on_ampere("memory-efficient", case) if case.dtype == "bfloat16" else None


class CudnnAttention(FusedAttention):
    """Attention by cuDNN's kernel only."""

    backends = CUDNN

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        CUDA only, in half precision, with heads that are a multiple of 8.
        """
        if case.device != "cuda":
            return "cuDNN's attention kernel runs on CUDA only"
        if (case.d_model // case.num_heads) % 8:
            return f"cuDNN's attention kernel takes heads of a multiple of 8, not {case.d_model // case.num_heads}"
        return _half_on_ampere("cuDNN", case)


class MathAttention(FusedAttention):
    """Attention by the fallback that the other classes forbid: plain products, with the n × n scores in memory."""

    backends = MATH

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return None: every case is supported on every device."""
        return None


def _half_on_ampere(kernel: str, case: Any) -> str | None:
    if case.dtype not in _HALF:
        return f"the {kernel} attention kernel on CUDA computes in {' or '.join(_HALF)}, not in {case.dtype}"
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < _AMPERE:
        return f"the {kernel} attention kernel needs a GPU of compute capability 8.0 or more for {case.dtype}"
    return None
