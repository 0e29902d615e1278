"""Gated DeltaNet, recurrent and in chunks: each token overwrites what the state holds for its key.

    H_t = α_t H_{t-1} + k_t u_tᵀ,   u_t = β_t (v_t − α_t H_{t-1}ᵀ k_t),   y_t = H_tᵀ q_t,   H_0 = 0

Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks", arXiv:2412.06464, section 3.1, equation 10 with H = Sᵀ, and
section 3.3 for the chunks. Gates as in section 3.4: α_t = exp(−exp A · softplus(W_α x_t + b)), β_t = σ(W_β x_t), and
queries and keys of length 1. The paper's block also has a short convolution, an output gate and a norm, which are left
out.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import normalize, softplus

from impls.attention.plain import head_dim_of, split
from impls.linear.matrix_state import Chunks, MatrixState, Terms, decays, widened


class RecurrentGatedDelta(MatrixState):
    """(b, n, d) -> (b, n, d), one token after another.

    Linear attention only adds to its state: two values with the same key can never be told apart. Here, the value that
    the state has for a key is read first, and only the difference is written. With β = 1, the new value replaces it.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim_of(d_model, num_heads)
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.gates = nn.Linear(d_model, 2 * num_heads)
        self.log_rate = nn.Parameter(torch.empty(num_heads).uniform_(-3, 0))  # A
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def terms(self, x: Tensor) -> Terms:
        """Return q, k, v (b, h, n, head_dim), log α and β (b, h, n, 1)."""
        q, k, v = split(widened(self.in_proj(x)), 3, self.num_heads)
        forget, write = widened(self.gates(x)).mT[..., None].chunk(2, dim=1)  # (b, h, n, 1) each
        log_decay = -widened(self.log_rate).exp()[:, None, None] * softplus(forget)
        return normalize(q, dim=-1), normalize(k, dim=-1), v, log_decay, write.sigmoid()

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return H_0 (b, h, head_dim, head_dim)."""
        weight = self.out_proj.weight
        return widened(weight.new_zeros(batch_size, self.num_heads, self.head_dim, self.head_dim))

    def update(self, state: Tensor, *terms: Tensor) -> tuple[Tensor, Tensor]:
        """Return y_t (b, h, 1, head_dim) and H_t."""
        q, k, v, log_decay, beta = terms
        state = log_decay.exp() * state
        state = state + k.mT @ (beta * (v - k @ state))  # (b, h, head_dim, head_dim)
        return q @ state, state


class ChunkedGatedDelta(RecurrentGatedDelta):
    """The same in chunks: a triangular system gives all u of a chunk at once.

        (I + A) U = β ⊙ (V − α_{1..i} ⊙ K H),   A_ij = β_i α_{j+1..i} k_i·k_j for j < i
        Y = α_{1..i} ⊙ (Q H) + (Q Kᵀ ⊙ L) U,    H' = α_{1..end} H + (α_{j+1..end} ⊙ K)ᵀ U

    H is the state before the chunk, H' the state after it, and L_ij = α_{j+1..i} for j ≤ i. U depends on H, so that
    each chunk waits for two products of the chunk before it.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"chunk": ("c", 32)}

    def __init__(self, d_model: int, num_heads: int, chunk: int = 32) -> None:
        super().__init__(d_model, num_heads)
        self.chunk = chunk

    def mixed(self, terms: Terms, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the heads (b, h, n, head_dim) and the state after them."""
        chunks = Chunks(terms[0].shape[2], self.chunk)
        q, k, v, log_decay, beta = (chunks.split(term) for term in terms)  # (b, h, chunks, chunk, ·)
        decay = decays(log_decay)  # (b, h, chunks, chunk, chunk)
        so_far = log_decay.cumsum(3).exp()  # (b, h, chunks, chunk, 1), since the chunk's beginning
        solved = inverse((beta * chunks.rows(k, k.mT) * decay).tril(-1), chunks.rest)
        u, before, state = delta_states(
            chunks.rows(solved, beta * v),
            chunks.rows(solved, beta * so_far * k),
            decay[..., -1:, :].mT * k,
            so_far[..., -1:, :],
            torch.zeros_like(state)[:, :, None],
            state,
            chunks.rest,
        )
        heads = so_far * chunks.rows(q, before) + chunks.rows(chunks.rows(q, k.mT) * decay, u)
        return chunks.join(heads), state


def inverse(a: Tensor, rest: int) -> Tensor:
    """Return (I + A)⁻¹ of each chunk, with A (b, h, chunks, chunk, chunk) zero on and above the diagonal.

    The last chunk has `rest` tokens, or is full if `rest` is 0.
    """
    solved: Tensor = _Inverse.apply(a, rest)
    return solved


class _Inverse(torch.autograd.Function):
    """Forward substitution, one row of all chunks at a time: T_i = e_i − A_i T.

    Products of powers of A would need fewer steps, but powers of similar keys grow until float32 has no digit left.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, rest: int) -> Tensor:
        size = a.shape[-1]
        solved = torch.eye(size, dtype=a.dtype, device=a.device).expand_as(a).contiguous()
        for i in range(size):
            real = a.shape[2] - (0 < rest <= i)  # chunks that have a token here
            solved[:, :, :real, i : i + 1] -= a[:, :, :real, i : i + 1] @ solved[:, :, :real]
        ctx.save_for_backward(solved)
        ctx.rest = rest
        return solved

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (solved,) = ctx.saved_tensors
        chunks = Chunks(solved.shape[2] * solved.shape[-1] - (-ctx.rest % solved.shape[-1]), solved.shape[-1])
        return -chunks.rows(chunks.sums(solved, gradients[0]), solved.mT).tril(-1), None


def delta_states(
    x: Tensor, w: Tensor, k: Tensor, decay: Tensor, added: Tensor, state: Tensor, rest: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return all U, the state before each chunk, and the state after the last one, given H before the first.

        U = X − W H,   H' = decay ⊙ H + Kᵀ U + added

    X, W and K are (b, h, chunks, chunk, ·), the last chunk with `rest` tokens, or full if `rest` is 0.
    """
    u, states = _DeltaStates.apply(x, w, k, decay, added.expand(*decay.shape[:3], *state.shape[-2:]), state, rest)
    return u, states[:, :, :-1], states[:, :, -1]


class _DeltaStates(torch.autograd.Function):
    """The loop over chunks. Its backward pass is a loop from the last chunk to the first, with G = ∂H':

    ∂U += K G,   ∂X = ∂U,   ∂W = −∂U Hᵀ,   ∂K = U Gᵀ,   ∂decay = G ⊙ H,   ∂added = G,   ∂H += decay ⊙ G − Wᵀ ∂U
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, k: Tensor, decay: Tensor, added: Tensor, state: Tensor, rest: int
    ) -> tuple[Tensor, Tensor]:
        u, states = x.clone(), [state]
        for i, tokens in enumerate(_real(u, rest)):
            u[:, :, i, tokens] -= w[:, :, i, tokens] @ state
            state = decay[:, :, i] * state + added[:, :, i] + k[:, :, i, tokens].mT @ u[:, :, i, tokens]
            states.append(state)
        stacked = torch.stack(states, dim=2)
        ctx.save_for_backward(w, k, decay, u, stacked)
        ctx.rest = rest
        return u, stacked

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        w, k, decay, u, states = ctx.saved_tensors
        given_u, given_states = gradients
        grad_u, grad_w, grad_k = given_u.clone(), torch.zeros_like(w), torch.zeros_like(k)
        after = [given_states[:, :, -1]]  # the gradient of the state after each chunk, from the last one on
        for i, tokens in reversed(list(enumerate(_real(u, ctx.rest)))):
            grad_u[:, :, i, tokens] += k[:, :, i, tokens] @ after[-1]
            grad_w[:, :, i, tokens] = -grad_u[:, :, i, tokens] @ states[:, :, i].mT
            grad_k[:, :, i, tokens] = u[:, :, i, tokens] @ after[-1].mT
            through_u = w[:, :, i, tokens].mT @ grad_u[:, :, i, tokens]
            after.append(given_states[:, :, i] + decay[:, :, i] * after[-1] - through_u)
        *grads, grad_state = after
        grad_added = torch.stack(grads[::-1], dim=2)
        grad_decay = (grad_added * states[:, :, :-1]).sum_to_size(decay.shape)
        return grad_u, grad_w, grad_k, grad_decay, grad_added, grad_state, None


def _real(chunks: Tensor, rest: int) -> list[slice]:
    """Return the tokens of each chunk."""
    count, size = chunks.shape[2:4]
    return [slice(rest if rest and i == count - 1 else size) for i in range(count)]
