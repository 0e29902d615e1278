"""Attention in one kernel that never writes the n × n scores to memory.

    softmax(Q Kᵀ / √head_dim) V   block by block, with a running maximum and sum

Dao et al. 2022, "FlashAttention", algorithm 1; Rabe & Staats 2021 (`efficient`); through
`scaled_dot_product_attention`. What this rung buys over `chunked` is one kernel for all blocks: no step between them
leaves the chip, and none waits for Python.

Which of torch's fused kernels runs is torch's choice; that it is a fused one is not: see `sdpa.py`.
"""

from typing import Any, ClassVar

from torch import Tensor

from impls.attention.layer import ToldAttention
from impls.attention.sdpa import FUSED, Backends, pinned_attention


class FusedAttention(ToldAttention):
    """(b, n, d) -> (b, n, d), by whichever fused kernel torch takes, never by `math`.

    Where a reason against a case is known beforehand `supports` tells it; else RuntimeError.
    """

    backends: ClassVar[Backends] = FUSED

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """(b, h, n, head_dim) of keys and values (b, h, m, head_dim)."""
        return pinned_attention(q, k, v, attn_mask, is_causal, self.backends)

    @staticmethod
    def supports(case: Any) -> str | None:
        """CUDA's fused kernels have no float64; the CPU's has it."""
        if case.device == "cuda" and case.dtype == "float64":
            return "no fused attention kernel on CUDA computes in float64"
        return None
