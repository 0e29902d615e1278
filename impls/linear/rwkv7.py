"""RWKV-7's time mixing, recurrent and in chunks: a delta rule with a decay and a rate for each channel.

    H_t = diag(w_t) H_{t-1} − (a_t ⊙ κ_t) κ_tᵀ H_{t-1} + k_t v_tᵀ,   y_t = H_tᵀ r_t,   H_0 = 0

Peng et al. 2025, "RWKV-7", arXiv:2503.14456, section 4.1, with H for the transposed state. As in the first layer of a
model, no value comes from an earlier layer.
"""

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, normalize

from impls.attention.plain import concatenated, head_dim_of
from impls.linear.gated_delta import delta_states, inverse
from impls.linear.matrix_state import Chunks, Form, MatrixState, Terms, widened

_NORM_EPS = 64e-5


class Mixed(NamedTuple):
    """Decoding state: H (b, h, head_dim, head_dim) and the last token (b, 1, d)."""

    h: Tensor
    last: Tensor


class LowRank(nn.Module):
    """W_2 f(W_1 x) + b, through `rank` channels: (…, d) -> (…, d)."""

    def __init__(self, d_model: int, rank: int, f: Callable[[Tensor], Tensor], bias: bool = True) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(d_model, rank, bias=False), nn.Linear(rank, d_model, bias=bias)
        self.f = f

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.up(self.f(self.down(x)))
        return y


class RecurrentRWKV7(MatrixState):
    """(b, n, d) -> (b, n, d), one token after another.

        r_t, k_t, v_t = W x_t of each,   κ_t = k_t ⊙ ξ / ‖k_t ⊙ ξ‖,   k_t ← k_t ⊙ (1 + (a_t − 1) ⊙ α)
        w_t = exp(−σ(f_w(x_t)) / √e),    a_t = σ(f_a(x_t)),           g_t = f_g(x_t)
        o_t = W_o (g_t ⊙ (Norm(y_t) + (r_t·(ρ ⊙ k_t)) v_t))

    Each x_t here is mixed with x_{t-1}, by a weight for each channel and use. Each f has a narrow inner layer of `rank`
    channels. Gated DeltaNet has one decay for a head, and the same rate for removing and writing. Here, each channel
    decays on its own, and what is removed may differ from what is written.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"rank": ("r", 32)}

    def __init__(self, d_model: int, num_heads: int, rank: int = 32) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim_of(d_model, num_heads)
        self.shift = nn.Parameter(torch.rand(6, d_model))  # of r, k, v, w, a and g
        self.receptance = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.decay = LowRank(d_model, rank, torch.tanh)
        self.rate = LowRank(d_model, rank, nn.Identity())
        self.gate = LowRank(d_model, rank, torch.sigmoid, bias=False)
        self.removal = nn.Parameter(torch.rand(d_model) + 0.5)  # ξ
        self.replacement = nn.Parameter(torch.rand(d_model))  # α
        self.bonus = nn.Parameter(0.1 * torch.randn(d_model))  # ρ
        self.norm_weight = nn.Parameter(torch.rand(d_model) + 0.5)
        self.norm_bias = nn.Parameter(0.1 * torch.randn(d_model))
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def run(self, x: Tensor, state: Mixed, form: Form) -> tuple[Tensor, Mixed]:
        """Return the layer's output (b, n, d) and the state after it."""
        before = torch.cat([state.last, x[:, :-1]], dim=1)  # (b, n, d)
        of_r, of_k, of_v, of_w, of_a, of_g = (torch.lerp(x, before, weight) for weight in self.shift)
        r, k, v = self.receptance(of_r), self.key(of_k), self.value(of_v)
        log_decay = -math.exp(-0.5) * torch.sigmoid(widened(self.decay(of_w)))
        rate = torch.sigmoid(self.rate(of_a))
        removed = normalize(self.heads(k * self.removal), dim=-1)
        written = k * (1 + (rate - 1) * self.replacement)
        terms = (self.heads(r), self.heads(log_decay), removed, self.heads(rate) * removed)
        y, h = form((*terms, self.heads(written), self.heads(v)), state.h)
        y = concatenated(layer_norm(y, (self.head_dim,), eps=_NORM_EPS).to(x.dtype))  # (b, n, d)
        own = self.heads(r * self.bonus * written).sum(-1, keepdim=True) * self.heads(v)
        y = y * self.norm_weight + self.norm_bias + concatenated(own.to(x.dtype))
        return self.out_proj(self.gate(of_g) * y), Mixed(h, x[:, -1:])

    def heads(self, x: Tensor) -> Tensor:
        """Split into heads: (b, n, d) -> (b, h, n, head_dim)."""
        return widened(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def start(self, batch_size: int, seq_len: int) -> Mixed:
        """Return H_0 and x_0, all 0."""
        weight = self.out_proj.weight
        h = widened(weight.new_zeros(batch_size, self.num_heads, self.head_dim, self.head_dim))
        return Mixed(h, weight.new_zeros(batch_size, 1, weight.shape[0]))

    def update(self, state: Tensor, *terms: Tensor) -> tuple[Tensor, Tensor]:
        """Return y_t (b, h, 1, head_dim) and H_t."""
        r, log_decay, removed, written, k, v = terms
        state = log_decay.exp().mT * state - written.mT @ (removed @ state) + k.mT @ v
        return r @ state, state


class ChunkedRWKV7(RecurrentRWKV7):
    """The same in chunks: with P_t = w_1 ⊙ ⋯ ⊙ w_t in a chunk, a triangular system gives all that is removed.

        R̃ = R ⊙ P_t,   Κ̃ = Κ ⊙ P_{t-1},   K̃ = K / P_t,   B̃ = (A ⊙ Κ) / P_t
        (I + tril(Κ̃ B̃ᵀ, −1)) U = −Κ̃ H − tril(Κ̃ K̃ᵀ, −1) V
        Y = R̃ H + tril(R̃ B̃ᵀ) U + tril(R̃ K̃ᵀ) V,   H' = P_end ⊙ (H + B̃ᵀ U + K̃ᵀ V)

    A channel's decay is at least exp(−1/√e) = 0.55, so that 1 / P is at most 16,000 in a chunk of 16. With longer
    chunks, the ratios would outgrow float16 and, beyond 140 tokens, float32.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"rank": ("r", 32), "chunk": ("c", 16)}

    def __init__(self, d_model: int, num_heads: int, rank: int = 32, chunk: int = 16) -> None:
        super().__init__(d_model, num_heads, rank)
        self.chunk = chunk

    def mixed(self, terms: Terms, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the heads (b, h, n, head_dim) and the state after them."""
        chunks = Chunks(terms[0].shape[2], self.chunk)
        r, log_decay, removed, written, k, v = (chunks.split(term) for term in terms)  # (b, h, chunks, chunk, head_dim)
        so_far = log_decay.cumsum(3)  # log P
        in_all = so_far[..., -1:, :].exp()  # (b, h, chunks, 1, head_dim)
        r, removed = so_far.exp() * r, (so_far - log_decay).exp() * removed
        k, written = (-so_far).exp() * k, (-so_far).exp() * written
        solved = inverse(chunks.rows(removed, written.mT).tril(-1), chunks.rest)
        u, before, state = delta_states(
            -chunks.rows(solved, chunks.rows(chunks.rows(removed, k.mT).tril(-1), v)),
            chunks.rows(solved, removed),
            in_all * written,
            in_all.mT,
            chunks.sums(in_all * k, v),
            state,
            chunks.rest,
        )
        of_chunk = chunks.rows(chunks.rows(r, written.mT).tril(), u) + chunks.rows(chunks.rows(r, k.mT).tril(), v)
        return chunks.join(chunks.rows(r, before) + of_chunk), state
