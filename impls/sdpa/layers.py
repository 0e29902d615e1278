"""Attention without projections: queries, keys and values lie side by side in the input.

    y = Concat(head_1 … head_h),   head_i = softmax(Q_i K_iᵀ / √head_dim) V_i,   x = [Q | K | V]

Vaswani et al. 2017, "Attention Is All You Need", equation 1. The input is packed as in the benchmark of Dao et al.
2022, "FlashAttention": (b, n, 3, h, head_dim) -> (b, n, h, head_dim). These layers complement `attention.*`: they show
what a kernel costs by itself, without the 8nd² of the four projections. They have no weights.
"""

from typing import ClassVar

from torch import Tensor, nn

from impls.attention.fused import FLASH, FUSED, Backends, FlashAttention, FusedAttention, pinned_attention
from impls.attention.plain import concatenated, head_dim_of, split, weighted_sum
from impls.attention.reference import attended


class PackedInput(nn.Module):
    """Base of the layers: (b, n, 3d) -> (b, n, d). Raises ValueError if `num_heads` does not divide `d_model`."""

    input_width = 3

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim_of(d_model, num_heads)

    def unpack(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q, K and V as views: (b, n, 3d) -> (b, h, n, head_dim) each."""
        q, k, v = split(x, self.input_width, self.num_heads)
        return q, k, v


class FusedSdpa(PackedInput):
    """A single fused kernel with nothing around it: (b, n, 3d) -> (b, n, d).

        softmax(Q Kᵀ / √head_dim) V   block by block, with a running maximum and sum

    Dao et al. 2022, "FlashAttention", algorithm 1. Papers on fused kernels measure this. Torch chooses the fused
    kernel, but never `math`: see `pinned_attention` in `impls/attention/fused.py`.

    `supports` returns the reason if a case is known to be impossible. Other impossible cases raise RuntimeError.
    """

    backends: ClassVar[Backends] = FUSED
    supports = staticmethod(FusedAttention.supports)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        q, k, v = self.unpack(x)  # (b, h, n, head_dim) each
        return concatenated(pinned_attention(q, k, v, attn_mask, is_causal, self.backends))  # (b, n, d)


class FlashSdpa(FusedSdpa):
    """The same, by the flash kernel only."""

    backends = FLASH
    supports = staticmethod(FlashAttention.supports)


class NaiveSdpa(PackedInput):
    """The baseline for fused kernels, with the scores of all heads written to memory: (b, n, 3d) -> (b, n, d).

        softmax((Q / √head_dim) Kᵀ) V   over (b, h, n, head_dim)

    Dao et al. 2022, "FlashAttention", algorithm 0, which scales inside the product of queries and keys. Here the
    queries are scaled before the product, which also avoids a pass over the n × n scores. In training, three matrices
    of h·n² words are alive at the peak: the weights, their gradient, and the gradient of the scores.

    `attn_mask` is broadcastable to (b, h, n, n) and True where a query may see a key.
    """

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.unpack(x)  # (b, h, n, head_dim) each
        q = q / self.head_dim**0.5
        return concatenated(weighted_sum(q @ k.transpose(-2, -1), v, attn_mask))  # (b, n, d)


class SdpaReference(nn.Module):
    """Reference of attention without projections: (b, n, 3d) -> (b, n, d).

    It computes the same as `AttentionReference` of `impls/attention`, with queries, keys and values given. The input
    holds queries, then keys, then values, and each of these holds head after head. With `rows`, it returns the outputs
    of these queries only. Written for float64, not for speed.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, v = (
            each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (b, h, n, head_dim)
            for each in x.split(self.d_model, dim=-1)
        )
        q = q if rows is None else q[:, :, rows]
        return attended(q, k, v, attn_mask).transpose(1, 2).flatten(2)  # (b, n, d)
