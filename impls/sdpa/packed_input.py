"""Base of attention without projections: the input holds queries, keys and values side by side.

    y = Concat(head_1 … head_h),   head_i = softmax(Q_i K_iᵀ / √head_dim) V_i,   x = [Q | K | V]

Vaswani et al. 2017, "Attention Is All You Need", equation 1. The input is packed as in the benchmark of Dao et al.
2022, "FlashAttention": (b, n, 3, h, head_dim) -> (b, n, h, head_dim). These layers complement `attention.*`: they show
what a kernel costs by itself, without the 8nd² of the four projections. They have no weights.
"""

from torch import Tensor, nn

from impls.attention.heads import head_dim_of, split


class PackedInput(nn.Module):
    """(b, n, 3d) -> (b, n, d). Raises ValueError if `num_heads` does not divide `d_model`."""

    input_width = 3

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim_of(d_model, num_heads)

    def unpack(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q, K and V as views: (b, n, 3d) -> (b, h, n, head_dim) each."""
        q, k, v = split(x, self.input_width, self.num_heads)
        return q, k, v
