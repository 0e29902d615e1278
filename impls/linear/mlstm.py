"""mLSTM: the LSTM with a matrix memory, recurrent and in chunks.

    C_t = f_t C_{t-1} + i_t k_t v_tᵀ,   z_t = f_t z_{t-1} + i_t k_t,   C_0 = 0,   z_0 = 0
    h_t = o_t ⊙ C_tᵀ q_t / max(|z_t·q_t|, 1),   i_t = exp(w_i·x_t + b_i),   f_t = σ(w_f·x_t + b_f),   o_t = σ(W_o x_t)

Beck et al. 2024, "xLSTM", arXiv:2405.04517, section 2.3, equations 19 to 27, with C transposed and z for the paper's
normaliser n. A projection of all heads follows, as in the paper's block. The block's up-projection, convolution and
norm are left out.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from impls.attention.plain import concatenated, head_dim_of, split
from impls.linear.matrix_state import Chunks, Form, MatrixState, Terms, log_decays, widened


class Memory(NamedTuple):
    """C (b, h, head_dim, head_dim) and z (b, h, 1, head_dim), both divided by exp(m), and m (b, h, 1, 1).

    The input gate is an exponential and may overflow, so that only its ratio to exp(m) is stored (section 2.2, equation
    15). The output does not depend on m. In contrast to the paper, m is at least 0: smaller gates need no division, and
    exp(−m) could overflow.
    """

    c: Tensor
    z: Tensor
    m: Tensor


class RecurrentMLSTM(MatrixState):
    """(b, n, d) -> (b, n, d), one token after another.

    Without gates, it is linear attention with signed features. In contrast to the LSTM, no gate depends on h_{t-1}.
    """

    kinks = True  # at |z·q| = 1

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim_of(d_model, num_heads)
        self.in_proj = nn.Linear(d_model, 4 * d_model)
        self.gates = nn.Linear(d_model, 2 * num_heads)
        self.out_proj = nn.Linear(d_model, d_model)

    def terms(self, x: Tensor) -> Terms:
        """Return q, k / √head_dim, v (b, h, n, head_dim), log i and log f (b, h, n, 1)."""
        d = x.shape[-1]
        stacked = nn.functional.linear(x, self.in_proj.weight[: 3 * d], self.in_proj.bias[: 3 * d])
        q, k, v = split(widened(stacked), 3, self.num_heads)
        log_input, forget = widened(self.gates(x)).mT[..., None].chunk(2, dim=1)  # (b, h, n, 1) each
        return q, k / self.head_dim**0.5, v, log_input, logsigmoid(forget)

    def run(self, x: Tensor, state: Memory, form: Form) -> tuple[Tensor, Memory]:
        """Return the layer's output (b, n, d) and the state after it."""
        d = x.shape[-1]
        heads, state = form(self.terms(x), state)
        open_ = torch.sigmoid(nn.functional.linear(x, self.in_proj.weight[3 * d :], self.in_proj.bias[3 * d :]))
        return self.out_proj(open_ * concatenated(heads.to(x.dtype))), state

    def start(self, batch_size: int, seq_len: int) -> Memory:
        """Return C_0, z_0 and m_0, all 0."""
        c = widened(self.out_proj.weight.new_zeros(batch_size, self.num_heads, self.head_dim, self.head_dim))
        return Memory(c, c[..., :1, :].clone(), c[..., :1, :1].clone())

    def update(self, state: Memory, *terms: Tensor) -> tuple[Tensor, Memory]:
        """Return h_t without its output gate (b, h, 1, head_dim), and the memory after it."""
        q, k, v, log_input, log_forget = terms
        m = torch.maximum(log_forget + state.m, log_input).clamp(min=0).detach()  # (b, h, 1, 1)
        kept, written = (log_forget + state.m - m).exp(), (log_input - m).exp()
        c = kept * state.c + (written * k).mT @ v  # (b, h, head_dim, head_dim)
        z = kept * state.z + written * k  # (b, h, 1, head_dim)
        return q @ c / _at_least(m, (q * z).sum(-1, keepdim=True)), Memory(c, z, m)


def _at_least(m: Tensor, total: Tensor) -> Tensor:
    """Return max(|total|, 1), where `total` and the result are divided by exp(m). It is never 0."""
    return torch.maximum(total.abs(), (-m).exp().clamp(min=torch.finfo(m.dtype).tiny))


class ChunkedMLSTM(RecurrentMLSTM):
    """The same in chunks: gated attention inside a chunk, and a memory passed from chunk to chunk.

        H_c = ((Q Kᵀ ⊙ D) V + f_{1..i} ⊙ (Q C)) / max(|row sums|, 1),   D_ij = i_j f_{j+1..i} for j ≤ i

    Section 2.3 and appendix A.3 (the parallel form, D being its gate matrix). All gates are in log space, divided by
    exp(m) of each row.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"chunk": ("c", 64)}

    def __init__(self, d_model: int, num_heads: int, chunk: int = 64) -> None:
        super().__init__(d_model, num_heads)
        self.chunk = chunk

    def mixed(self, terms: Terms, state: Memory) -> tuple[Tensor, Memory]:
        """Return the heads (b, h, n, head_dim) and the memory after them."""
        chunks = Chunks(terms[0].shape[2], self.chunk)
        q, k, v = (chunks.split(term) for term in terms[:3])  # (b, h, chunks, chunk, head_dim)
        log_input = chunks.split(terms[3], filling=float("-inf"))  # (b, h, chunks, chunk, 1)
        log_forget = chunks.split(terms[4])
        so_far = log_forget.cumsum(3)  # (b, h, chunks, chunk, 1), since the chunk's beginning
        gates = log_decays(log_forget) + log_input.mT  # (b, h, chunks, chunk, chunk), log D
        own = gates.amax(-1, keepdim=True).clamp(min=0).detach()  # (b, h, chunks, chunk, 1), largest of each row
        of_end = gates[..., -1:, :].mT  # (b, h, chunks, chunk, 1), gates into the next memory

        written = (of_end - own[..., -1:, :]).exp() * k
        before, state = passed_on(
            state, so_far[..., -1:, :], own[..., -1:, :], chunks.sums(written, v), written.sum(3, keepdim=True)
        )
        m = torch.maximum(own, so_far + before.m).detach()  # (b, h, chunks, chunk, 1)
        scores = chunks.rows(q, k.mT) * (gates - m).exp()
        kept = (so_far + before.m - m).exp()
        total = scores.sum(-1, keepdim=True) + kept * (q * before.z).sum(-1, keepdim=True)
        heads = (chunks.rows(scores, v) + kept * chunks.rows(q, before.c)) / _at_least(m, total)
        return chunks.join(heads), state


def passed_on(state: Memory, log_kept: Tensor, own: Tensor, c: Tensor, z: Tensor) -> tuple[Memory, Memory]:
    """Return the memory before each chunk, (b, h, chunks, ·, ·) each, and the one after the last chunk.

    Each chunk keeps exp(`log_kept`) of the memory and adds its own `c` and `z`, both divided by exp(`own`).
    """
    memories = [state]
    for log_kept_c, own_c, c_c, z_c in zip(*(each.unbind(2) for each in (log_kept, own, c, z)), strict=True):
        last = memories[-1]
        m = torch.maximum(log_kept_c + last.m, own_c).detach()
        kept, added = (log_kept_c + last.m - m).exp(), (own_c - m).exp()
        memories.append(Memory(kept * last.c + added * c_c, kept * last.z + added * z_c, m))
    c, z, m = (torch.stack(each, dim=2)[:, :, :-1] for each in zip(*memories, strict=True))
    return Memory(c, z, m), memories[-1]
