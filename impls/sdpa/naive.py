"""The baseline for fused kernels: the scores of all heads are written to memory.

    softmax((Q / √head_dim) Kᵀ) V   over (b, h, n, head_dim)

Dao et al. 2022, "FlashAttention", algorithm 0, which scales inside the product of queries and keys. Here the queries
are scaled before the product, which also avoids a pass over the n × n scores. In training, three matrices of h·n² words
are alive at the peak: the weights, their gradient, and the gradient of the scores.
"""

from torch import Tensor

from impls.attention.heads import concatenated
from impls.attention.packed import weighted_sum
from impls.sdpa.packed_input import PackedInput


class NaiveSdpa(PackedInput):
    """(b, n, 3d) -> (b, n, d). `attn_mask` is broadcastable to (b, h, n, n) and True where a query may see a key."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.unpack(x)  # (b, h, n, head_dim) each
        q = q / self.head_dim**0.5
        return concatenated(weighted_sum(q @ k.transpose(-2, -1), v, attn_mask))  # (b, n, d)
