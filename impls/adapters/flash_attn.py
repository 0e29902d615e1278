"""Attention by the flash-attn package.

    softmax(Q Kᵀ / √head_dim) V   block by block, on the GPU's tensor cores

Dao 2023, "FlashAttention-2". The same algorithm as `attention.fused`, whose flash kernel is an earlier one of the same
origin; here in the release that is installed. `flash_attn_func` takes (b, n, h, head_dim), which is what the projection
leaves in memory, so that no head is moved.
"""

import importlib
from typing import Any, ClassVar

from torch import Tensor

from impls.adapters.package import refusal
from impls.attention.layer import Attention

_LARGEST_HEAD = 256


def _pairs(q: Tensor, k: Tensor, causal: bool) -> int:
    """Pairs of a query and a key that are computed, over batch and heads: n queries of (b, n, h, head_dim)."""
    b, n, h, _ = q.shape
    m = k.shape[1]
    # A causal mask is aligned at the bottom right; it is only given where n = m.
    return b * h * (n * (n + 1) // 2 if causal else n * m)


def _forward_flops(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float, softmax_scale: float, causal: bool, *rest: Any, **named: Any
) -> int:
    """Scores and weighted sum: 2 products."""
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
    """Five products, the scores again among them."""
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
        """Why a case cannot be; None if nothing speaks against it."""
        if case.d_model // case.num_heads > _LARGEST_HEAD:
            return f"flash-attn has heads of {_LARGEST_HEAD} at most, not {case.d_model // case.num_heads}"
        if case.mask == "padding":
            return "flash_attn_func takes no padding mask"
        return refusal(case, "flash_attn", "flash-attn", ("float16", "bfloat16"))

    def forward(  # type: ignore[override]  # it takes no mask but the causal one
        self, x: Tensor, is_causal: bool = False, source: Tensor | None = None
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, is_causal))  # (b, n, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:  # type: ignore[override]
        """(b, h, n, head_dim) of keys and values (b, h, m, head_dim)."""
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # (b, n, h, head_dim), (b, m, h, head_dim) twice
        heads: Tensor = self.flash_attn_func(q, k, v, causal=is_causal)  # (b, n, h, head_dim)
        return heads.transpose(1, 2)  # (b, h, n, head_dim)
