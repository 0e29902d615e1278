"""Fused attention pinned to one kernel each, for comparison; and pinned to what the others must not fall back to.

    softmax(Q Kᵀ / √head_dim) V   by the kernel in the class's name, or not at all

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
    """By the flash kernel alone."""

    backends = FLASH

    @staticmethod
    def supports(case: Any) -> str | None:
        """On the CPU everything; on CUDA half precision, heads of up to 256, and no mask but a causal one."""
        if case.device != "cuda":
            return None
        if case.mask == "padding":
            return "the flash kernel on CUDA takes no mask but a causal one"
        if case.d_model // case.num_heads > 256:
            return f"the flash kernel on CUDA takes heads of up to 256, not {case.d_model // case.num_heads}"
        return _half_on_ampere("flash", case)


class EfficientAttention(FusedAttention):
    """By the memory-efficient kernel alone."""

    backends = EFFICIENT

    @staticmethod
    def supports(case: Any) -> str | None:
        """CUDA only, and not float64; bfloat16 from compute capability 8.0 on."""
        if case.device != "cuda":
            return "the memory-efficient attention kernel runs on CUDA only"
        if case.dtype == "float64":
            return "the memory-efficient attention kernel does not compute in float64"
        return _half_on_ampere("memory-efficient", case) if case.dtype == "bfloat16" else None


class CudnnAttention(FusedAttention):
    """By cuDNN's kernel alone."""

    backends = CUDNN

    @staticmethod
    def supports(case: Any) -> str | None:
        """CUDA only, in half precision, with heads that are a multiple of 8."""
        if case.device != "cuda":
            return "cuDNN's attention kernel runs on CUDA only"
        if (case.d_model // case.num_heads) % 8:
            return f"cuDNN's attention kernel takes heads of a multiple of 8, not {case.d_model // case.num_heads}"
        return _half_on_ampere("cuDNN", case)


class MathAttention(FusedAttention):
    """By what the others must not fall back to: plain products, the n × n scores in memory."""

    backends = MATH

    @staticmethod
    def supports(case: Any) -> str | None:
        """Everything, everywhere."""
        return None


def _half_on_ampere(kernel: str, case: Any) -> str | None:
    if case.dtype not in _HALF:
        return f"the {kernel} attention kernel on CUDA computes in {' or '.join(_HALF)}, not in {case.dtype}"
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < _AMPERE:
        return f"the {kernel} attention kernel needs a GPU of compute capability 8.0 or more for {case.dtype}"
    return None
