"""What fused kernels are measured against: the scores of all heads written out to memory.

    softmax((Q / √head_dim) Kᵀ) V   over (b, h, n, head_dim)

The baseline of Dao et al. 2022, "FlashAttention", algorithm 0. It scales within the product of queries and keys; here
the queries are scaled before it, so that no pass over n × n scores is spent on that either. In training three matrices
of h·n² words are alive at the peak: the weights, their gradient, and the gradient of the scores.
"""

from torch import Tensor

from impls.attention.heads import concatenated
from impls.attention.packed import weighted_sum
from impls.sdpa.packed_input import PackedInput


class NaiveSdpa(PackedInput):
    """(b, n, 3d) -> (b, n, d). `attn_mask`, broadcastable to (b, h, n, n), is True where a query may look at a key."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.unpack(x)  # (b, h, n, head_dim) each
        q = q / self.head_dim**0.5
        return concatenated(weighted_sum(q @ k.transpose(-2, -1), v, attn_mask))  # (b, n, d)
