"""FlashAttention's algorithm in plain operations: all scores are computed, but only a block of them is kept.

    softmax(Q Kᵀ / √head_dim) V   by blocks of queries and keys, with a running maximum and sum

Rabe & Staats 2021; Dao et al. 2022, "FlashAttention", algorithms 1 and 4. Advantage over `packed`: memory grows with n
instead of n², forward and backward. The price is twofold. Each query processes its blocks one after another, so depth
grows with n. The backward pass computes the scores a second time.
"""

import torch
from torch import Tensor

from impls.attention.layer import ToldAttention
from impls.attention.online_softmax import BlockwiseAttention


class ChunkedAttention(ToldAttention):
    """(b, n, d) -> (b, n, d), in blocks of `block` queries and keys. The last block may be shorter."""

    later: Tensor

    def __init__(self, d_model: int, num_heads: int, block: int = 64) -> None:
        super().__init__(d_model, num_heads)
        self.block = block
        # What a causal mask hides within a block on the diagonal. Built once here instead of in every call.
        self.register_buffer("later", torch.ones(block, block, dtype=torch.bool).triu(1), persistent=False)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        later = self.later if is_causal else None
        heads: Tensor = BlockwiseAttention.apply(q, k, v, attn_mask, later, self.block)
        return heads  # (b, h, n, head_dim)
