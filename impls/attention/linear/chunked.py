"""Causal linear attention in chunks: quadratic inside a chunk, with a state passed from chunk to chunk.

    Y_c = φ(Q_c) S_c + (φ(Q_c) φ(K_c)ᵀ ⊙ M) V_c,   S_c = Σ_{c' < c} φ(K_c')ᵀ V_c'

Hua et al. 2022, "Transformer Quality in Linear Time", section 3; Yang et al. 2023, "Gated Linear Attention
Transformers with Hardware-Efficient Training", section 3.

Advantage over `recurrent`: no loop. All chunks are computed at once, in products large enough to be efficient. The
states are one prefix sum over n / chunk chunks, which is one kernel and counts as one operation. The price is the work
inside the chunks, which grows with the chunk size, and the memory for all states.

If n is a multiple of the chunk c, a forward pass has 8nd² + 4cnd + 4nd²/h FLOPs, and training three times as many. The
last chunk is padded. Beyond the projections, any other n therefore costs as much as the next multiple of c.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from impls.attention.linear.layer import LinearAttention, averaged_features, feature_map, sums_in


class ChunkedLinearAttention(LinearAttention):
    """(b, n, d) -> (b, n, d). No token sees a later one."""

    causal = True

    def __init__(self, d_model: int, num_heads: int, chunk: int = 64) -> None:
        super().__init__(d_model, num_heads)
        if chunk < 1:
            raise ValueError(f"chunk={chunk} is no number of tokens")
        self.chunk = chunk

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        # Queries are padded with 1 instead of 0: their outputs are discarded, but must not be 0 / 0.
        q = self.chunks(feature_map(q), filling=1.0)  # (b, h, chunks, chunk, head_dim)
        k, v = self.chunks(averaged_features(k)), self.chunks(v)  # (b, h, chunks, chunk, head_dim) each
        scores = (q @ k.transpose(-2, -1)).tril()  # (b, h, chunks, chunk, chunk)
        s = before(k.transpose(-2, -1) @ v)  # (b, h, chunks, head_dim, head_dim)
        z = before(k.sum(-2, keepdim=True))  # (b, h, chunks, 1, head_dim)
        total = (q * z).sum(-1, keepdim=True) + scores.sum(-1, keepdim=True)  # (b, h, chunks, chunk, 1)
        heads = (q @ s + scores @ v) / total  # (b, h, chunks, chunk, head_dim)
        return self.merge(heads.flatten(2, 3)[:, :, : x.shape[1]])  # (b, n, d)

    def chunks(self, tensor: Tensor, filling: float = 0.0) -> Tensor:
        """Split the tokens into chunks, padding the last one: (b, h, n, head_dim) -> (b, h, chunks, chunk, head_dim).

        The result is always a copy: chunks that are contiguous in memory form one batch of products.
        """
        b, h, n, head_dim = tensor.shape
        rest = tensor.new_full((b, h, -n % self.chunk, head_dim), filling)
        return torch.cat([tensor, rest], dim=2).unflatten(2, (-1, self.chunk))


def before(of_chunk: Tensor) -> Tensor:
    """Return, for each chunk, the sum over the chunks before it: (b, h, chunks, …) in and out."""
    sums = pad(of_chunk, (0, 0, 0, 0, 1, 0)).cumsum(2, dtype=sums_in(of_chunk.dtype))  # (b, h, 1 + chunks, …)
    return sums[:, :, :-1].to(of_chunk.dtype)
