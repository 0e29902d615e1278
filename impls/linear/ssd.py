"""State space duality: the layer inside Mamba-2, recurrent and in chunks, with one decay for each head and token.

    H_t = a_t H_{t-1} + B_t (Δ_t x_t)ᵀ,   y_t = C_tᵀ H_t + D x_t,   a_t = exp(−Δ_t exp A),   H_0 = 0

Dao & Gu 2024, "Transformers are SSMs", arXiv:2405.21060, section 2.1 (the recurrence) and section 7 (the layer). As in
the paper, all heads share B and C. The paper's block also has a short convolution, a gate and a norm around it, which
are left out.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from impls.attention.plain import head_dim_of
from impls.linear.matrix_state import Chunks, MatrixState, Terms, decays, scanned, widened


class RecurrentSSD(MatrixState):
    """(b, n, d) -> (b, n, d), one token after another. `state` is the number of rows of H, N in the paper.

    Without decay and Δ, it is linear attention without a normaliser: C, B and x are its queries, keys and values.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"state": ("s", 64)}

    def __init__(self, d_model: int, num_heads: int, state: int = 64) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.state = num_heads, head_dim_of(d_model, num_heads), state
        self.in_proj = nn.Linear(d_model, d_model + 2 * state + num_heads, bias=False)
        self.step_bias = nn.Parameter(torch.empty(num_heads).uniform_(-4, 0))  # steps Δ of 0.02 to 0.7
        self.log_rate = nn.Parameter(torch.empty(num_heads).uniform_(0, 2))  # A
        self.skip = nn.Parameter(torch.randn(num_heads))  # D
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def terms(self, x: Tensor) -> Terms:
        """Return C, B (b, 1, n, N), Δx (b, h, n, head_dim), log a (b, h, n, 1) and Dx (b, h, n, head_dim)."""
        sizes = [x.shape[-1], self.state, self.state, self.num_heads]
        inner, b, c, step = widened(self.in_proj(x)).split(sizes, dim=-1)
        inner = inner.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)  # (b, h, n, head_dim)
        step = softplus(step + self.step_bias).mT[..., None]  # (b, h, n, 1)
        log_decay = -step * widened(self.log_rate).exp()[:, None, None]
        return c[:, None], b[:, None], step * inner, log_decay, self.skip[:, None, None] * inner

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return H_0 (b, h, N, head_dim)."""
        weight = self.out_proj.weight
        return widened(weight.new_zeros(batch_size, self.num_heads, self.state, self.head_dim))

    def update(self, state: Tensor, *terms: Tensor) -> tuple[Tensor, Tensor]:
        """Return y_t (b, h, 1, head_dim) and H_t."""
        c, b, v, log_decay, skip = terms
        state = log_decay.exp() * state + b.mT @ v  # (b, h, N, head_dim)
        return c @ state + skip, state


class ChunkedSSD(RecurrentSSD):
    """The same in chunks: attention with decays inside a chunk, and a state passed from chunk to chunk.

        Y_c = (C Bᵀ ⊙ L) ΔX + a_{1..i} ⊙ (C H_c),   H_{c+1} = a_{1..end} H_c + Σ_j a_{j+1..end} B_j (Δ_j x_j)ᵀ

    L_ij = a_{j+1} ⋯ a_i for j ≤ i, all of it from sums of log a. Dao & Gu 2024, section 6 and listing 1.

    Advantage over `RecurrentSSD`: products of matrices instead of n small steps. Only the states wait for one another,
    n / chunk of them.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"state": ("s", 64), "chunk": ("c", 32)}

    def __init__(self, d_model: int, num_heads: int, state: int = 64, chunk: int = 32) -> None:
        super().__init__(d_model, num_heads, state)
        self.chunk = chunk

    def mixed(self, terms: Terms, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the heads (b, h, n, head_dim) and the state after them."""
        *split, skip = terms
        chunks = Chunks(skip.shape[2], self.chunk)
        c, b, v, log_decay = (chunks.split(term) for term in split)  # (b, h or 1, chunks, chunk, ·)
        decay = decays(log_decay)  # (b, h, chunks, chunk, chunk)
        so_far = log_decay.cumsum(3).exp()  # (b, h, chunks, chunk, 1), since the chunk's beginning
        to_end = decay[..., -1:, :].mT  # (b, h, chunks, chunk, 1)
        added = chunks.sums(to_end * b, v)  # (b, h, chunks, N, head_dim)
        before, state = scanned(state, so_far[..., -1:, :], added)
        heads = chunks.rows(chunks.rows(c, b.mT) * decay, v) + so_far * chunks.rows(c, before)
        return chunks.join(heads) + skip, state
