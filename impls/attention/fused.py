"""Attention in one kernel that never writes the n × n scores to memory.

    softmax(Q Kᵀ / √head_dim) V   block by block, with a running maximum and sum

Dao et al. 2022, "FlashAttention", algorithm 1, through `scaled_dot_product_attention`. What this
rung buys over `packed` is memory linear in n, at the same work.
"""

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from impls.attention.parameters import AttentionParameters

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


class FusedAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d), by the named backend or not at all.

    Unpinned, SDPA falls back to `math`, which materialises the scores, without a word; pinned, it
    raises RuntimeError where the backend cannot run the case.
    """

    def __init__(self, d_model: int, num_heads: int, backend: str = "flash") -> None:
        super().__init__(d_model, num_heads)
        self.backend = BACKENDS[backend]

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        with sdpa_kernel(self.backend):
            heads = scaled_dot_product_attention(q, k, v)  # (b, h, n, head_dim)
        return self.merge(heads)  # (b, n, d)
