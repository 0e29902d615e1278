"""A single fused kernel with nothing around it: what papers on fused kernels measure.

    softmax(Q Kᵀ / √head_dim) V   block by block, with a running maximum and sum

Dao et al. 2022, "FlashAttention", algorithm 1. The layers call `scaled_dot_product_attention` and never let it use its
`math` backend: see `impls/attention/sdpa.py`.
"""

from typing import ClassVar

from torch import Tensor

from impls.attention.fused import FusedAttention
from impls.attention.fused_pinned import FlashAttention
from impls.attention.heads import concatenated
from impls.attention.sdpa import Backends, pinned_attention
from impls.sdpa.packed_input import PackedInput


class FusedSdpa(PackedInput):
    """(b, n, 3d) -> (b, n, d), by whichever fused kernel torch chooses, never by `math`.

    `supports` returns the reason if a case is known to be impossible. Other impossible cases raise RuntimeError.
    """

    backends: ClassVar[Backends] = FusedAttention.backends
    supports = staticmethod(FusedAttention.supports)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        q, k, v = self.unpack(x)  # (b, h, n, head_dim) each
        return concatenated(pinned_attention(q, k, v, attn_mask, is_causal, self.backends))  # (b, n, d)


class FlashSdpa(FusedSdpa):
    """The same, by the flash kernel only."""

    backends = FlashAttention.backends
    supports = staticmethod(FlashAttention.supports)
