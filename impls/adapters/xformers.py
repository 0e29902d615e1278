"""Attention by the xformers package, which chooses the kernel that it expects to be fastest.

    softmax(Q Kᵀ / √head_dim) V   block by block

Rabe & Staats 2021, "Self-attention Does Not Need O(n²) Memory". `memory_efficient_attention` takes (b, n, h, head_dim),
and the causal mask as an object that it never writes out.
"""

import importlib
from typing import Any

from torch import Tensor

from impls.adapters.package import refusal
from impls.attention.layer import Attention

# Head sizes must be a multiple of these numbers, because the kernels require multiples of 16 bytes.
_MULTIPLE_OF = {"float32": 4, "float16": 8, "bfloat16": 8}


class XformersAttention(Attention):
    """(b, n, d) -> (b, n, d)."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        ops = importlib.import_module("xformers.ops")
        self.memory_efficient_attention = ops.memory_efficient_attention
        self.lower_triangular = ops.LowerTriangularMask()

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        head_dim, multiple = case.d_model // case.num_heads, _MULTIPLE_OF.get(case.dtype, 1)
        if head_dim % multiple:
            return f"xformers has heads of a multiple of {multiple} in {case.dtype}, not of {head_dim}"
        if case.mask == "padding":
            return "its padding masks are of sequences laid end to end, which is another layout"
        return refusal(case, "xformers", "xformers", tuple(_MULTIPLE_OF))

    def forward(  # type: ignore[override]  # the causal mask is the only one it takes
        self, x: Tensor, is_causal: bool = False, source: Tensor | None = None
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, is_causal))  # (b, n, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:  # type: ignore[override]
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # (b, n, h, head_dim), (b, m, h, head_dim) twice
        mask = self.lower_triangular if is_causal else None
        heads: Tensor = self.memory_efficient_attention(q, k, v, attn_bias=mask)  # (b, n, h, head_dim)
        return heads.transpose(1, 2)  # (b, h, n, head_dim)
