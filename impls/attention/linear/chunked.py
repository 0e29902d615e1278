"""Causal linear attention chunk by chunk: quadratic inside a chunk, a state from chunk to chunk.

    Y_c = φ(Q_c) S_c + (φ(Q_c) φ(K_c)ᵀ ⊙ M) V_c,   S_c = Σ_{c' < c} φ(K_c')ᵀ V_c'

Hua et al. 2022, "Transformer Quality in Linear Time", section 3; Yang et al. 2023, "Gated Linear Attention
Transformers with Hardware-Efficient Training", section 3. Beyond `recurrent`: no loop. All chunks are done at once, in
products large enough for a machine to be good at, and the states are one prefix sum over n / chunk chunks, which is one
kernel and counts as one operation. What it costs is the work inside the chunks, which grows with their size, and the
states of all of them in memory.

Work, where n is a multiple of the chunk c: 8nd² + 4cnd + 4nd²/h, and three times that in training. The last chunk is
filled up, so that beyond the projections any other n costs as much as the next multiple.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from impls.attention.linear.layer import LinearAttention, averaged_features, feature_map, sums_in


class ChunkedLinearAttention(LinearAttention):
    """(b, n, d) -> (b, n, d), no token seeing a later one."""

    causal = True

    def __init__(self, d_model: int, num_heads: int, chunk: int = 64) -> None:
        super().__init__(d_model, num_heads)
        if chunk < 1:
            raise ValueError(f"chunk={chunk} is no number of tokens")
        self.chunk = chunk

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        # A query that fills up is 1, not 0: what it gets is thrown away, and must not be 0 / 0 before that.
        q = self.chunks(feature_map(q), filling=1.0)  # (b, h, chunks, chunk, head_dim)
        k, v = self.chunks(averaged_features(k)), self.chunks(v)  # (b, h, chunks, chunk, head_dim) each
        scores = (q @ k.transpose(-2, -1)).tril()  # (b, h, chunks, chunk, chunk)
        s = before(k.transpose(-2, -1) @ v)  # (b, h, chunks, head_dim, head_dim)
        z = before(k.sum(-2, keepdim=True))  # (b, h, chunks, 1, head_dim)
        total = (q * z).sum(-1, keepdim=True) + scores.sum(-1, keepdim=True)  # (b, h, chunks, chunk, 1)
        heads = (q @ s + scores @ v) / total  # (b, h, chunks, chunk, head_dim)
        return self.merge(heads.flatten(2, 3)[:, :, : x.shape[1]])  # (b, n, d)

    def chunks(self, tensor: Tensor, filling: float = 0.0) -> Tensor:
        """(b, h, n, head_dim) -> (b, h, chunks, chunk, head_dim), the last one filled up.

        A copy in any case: chunks that lie one after another in memory are one batch of products.
        """
        b, h, n, head_dim = tensor.shape
        rest = tensor.new_full((b, h, -n % self.chunk, head_dim), filling)
        return torch.cat([tensor, rest], dim=2).unflatten(2, (-1, self.chunk))


def before(of_chunk: Tensor) -> Tensor:
    """For each chunk the sum over those before it: (b, h, chunks, …) in and out."""
    sums = pad(of_chunk, (0, 0, 0, 0, 1, 0)).cumsum(2, dtype=sums_in(of_chunk.dtype))  # (b, h, 1 + chunks, …)
    return sums[:, :, :-1].to(of_chunk.dtype)
