"""Attention in one kernel that never writes the n × n scores to memory.

    softmax(Q Kᵀ / √head_dim) V   block by block, with a running maximum and sum

Dao et al. 2022, "FlashAttention", algorithm 1; Rabe & Staats 2021 (`efficient`). Both are called through
`scaled_dot_product_attention`. Advantage over `chunked`: one kernel processes all blocks. Nothing between two blocks
leaves the chip, and no block waits for Python.

Torch chooses which of its fused kernels runs, but the choice is restricted to fused ones: see `sdpa.py`.
"""

from typing import Any, ClassVar

from torch import Tensor

from impls.attention.layer import ToldAttention
from impls.attention.sdpa import FUSED, Backends, pinned_attention


class FusedAttention(ToldAttention):
    """(b, n, d) -> (b, n, d), by whichever fused kernel torch chooses, never by `math`.

    `supports` returns the reason if a case is known to be impossible. Other impossible cases raise RuntimeError.
    """

    backends: ClassVar[Backends] = FUSED

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        return pinned_attention(q, k, v, attn_mask, is_causal, self.backends)

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        CUDA's fused kernels do not support float64; the CPU's kernel does.
        """
        if case.device == "cuda" and case.dtype == "float64":
            return "no fused attention kernel on CUDA computes in float64"
        return None
