"""FlashAttention's algorithm in plain operations: all scores are computed, and never more than a block of them kept.

    softmax(Q Kᵀ / √head_dim) V   by blocks of queries and keys, with a running maximum and sum

Rabe & Staats 2021; Dao et al. 2022, "FlashAttention", algorithms 1 and 4. What this rung buys over `packed` is memory
that grows with n and not n², forward and backward. What it costs: a step a block, one after another for each query, so
that depth grows with n; and the scores a second time in the backward pass.
"""

import torch
from torch import Tensor

from impls.attention.layer import ToldAttention
from impls.attention.online_softmax import BlockwiseAttention


class ChunkedAttention(ToldAttention):
    """(b, n, d) -> (b, n, d), in blocks of `block` queries and keys; the last block may be shorter."""

    later: Tensor

    def __init__(self, d_model: int, num_heads: int, block: int = 64) -> None:
        super().__init__(d_model, num_heads)
        self.block = block
        # What a causal mask hides within a block on the diagonal. Made here, so that no call has to.
        self.register_buffer("later", torch.ones(block, block, dtype=torch.bool).triu(1), persistent=False)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """(b, h, n, head_dim) of keys and values (b, h, m, head_dim)."""
        later = self.later if is_causal else None
        heads: Tensor = BlockwiseAttention.apply(q, k, v, attn_mask, later, self.block)
        return heads  # (b, h, n, head_dim)
