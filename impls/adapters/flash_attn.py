"""Attention by the flash-attn package.

    softmax(Q Kᵀ / √head_dim) V   block by block, on the GPU's tensor cores

Dao 2023, "FlashAttention-2". The algorithm is that of `attention.fused`, whose flash kernel is an earlier one of
the same origin. This layer runs the installed release. `flash_attn_func` takes (b, n, h, head_dim), which is the memory
layout of the projection's output, so no head has to be moved.
"""

import importlib
from typing import Any, ClassVar

from torch import Tensor

from impls.adapters.package import refusal
from impls.attention.layer import Attention

_LARGEST_HEAD = 256


def _pairs(q: Tensor, k: Tensor, causal: bool) -> int:
    """Return the number of computed query-key pairs over batch and heads, for queries (b, n, h, head_dim)."""
    b, n, h, _ = q.shape
    m = k.shape[1]
    # A causal mask is aligned at the bottom right, and is only used with n = m.
    return b * h * (n * (n + 1) // 2 if causal else n * m)


def _forward_flops(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float, softmax_scale: float, causal: bool, *rest: Any, **named: Any
) -> int:
    """FLOPs of the forward pass: two products, for scores and weighted sum."""
    return 4 * _pairs(q, k, causal) * q.shape[-1]


def _backward_flops(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attended: Tensor,
    softmax_lse: Tensor,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    *rest: Any,
    **named: Any,
) -> int:
    """FLOPs of the backward pass: five products, including the recomputed scores."""
    return 10 * _pairs(q, k, causal) * q.shape[-1]


class FlashAttention(Attention):
    """(b, n, d) -> (b, n, d)."""

    kernels: ClassVar[dict[str, Any]] = {
        "flash_attn::_flash_attn_forward": {"flops": _forward_flops, "depth": lambda *args, **named: 3},
        "flash_attn::_flash_attn_backward": {"flops": _backward_flops, "depth": lambda *args, **named: 4},
    }

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.flash_attn_func = importlib.import_module("flash_attn").flash_attn_func

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        if case.d_model // case.num_heads > _LARGEST_HEAD:
            return f"flash-attn has heads of {_LARGEST_HEAD} at most, not {case.d_model // case.num_heads}"
        if case.mask == "padding":
            return "flash_attn_func takes no padding mask"
        return refusal(case, "flash_attn", "flash-attn", ("float16", "bfloat16"))

    def forward(  # type: ignore[override]  # the causal mask is the only one it takes
        self, x: Tensor, is_causal: bool = False, source: Tensor | None = None
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, is_causal))  # (b, n, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:  # type: ignore[override]
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # (b, n, h, head_dim), (b, m, h, head_dim) twice
        heads: Tensor = self.flash_attn_func(q, k, v, causal=is_causal)  # (b, n, h, head_dim)
        return heads.transpose(1, 2)  # (b, h, n, head_dim)
