"""What the layers with a matrix state share: the recurrent form, decoding, and products over chunks of tokens.

    H_t = Update(H_{t-1}, x_t),   y_t = q_tᵀ H_t,   H_0 = 0

H is one matrix (e, head_dim) for each head. Its size does not grow with n, so neither does the cost of a token. The
recurrent form runs one token at a time. The chunked form computes all tokens of a chunk at once, from the state before
the chunk (Hua et al. 2022, "Transformer Quality in Linear Time", section 3).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from impls.attention.plain import concatenated

# The tensors that the update takes of each token, (b, h, n, ·) each.
Terms = tuple[Tensor, ...]
Form = Callable[[Terms, Any], tuple[Tensor, Any]]


def widened(x: Tensor) -> Tensor:
    """Return x in float32 or wider: sums and products over many tokens lose too much in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class MatrixState(nn.Module):
    """Base of the layers: (b, n, d) -> (b, n, d). No token sees a later one.

    Each layer defines `terms`, `start` and `update`, and thereby its recurrent form. A chunked form overrides `mixed`.
    Both forms have the same weights and decode in the same way.
    """

    causal = True
    out_proj: nn.Linear

    def terms(self, x: Tensor) -> Terms:
        """Return what `update` takes, for all tokens at once: (b, n, d) -> (b, h, n, ·) for each term."""
        raise NotImplementedError

    def start(self, batch_size: int, seq_len: int) -> Any:
        """Return the state before the first token."""
        raise NotImplementedError

    def update(self, state: Any, *terms: Tensor) -> tuple[Tensor, Any]:
        """Return the output of one token (b, h, 1, head_dim), and the state after it."""
        raise NotImplementedError

    def recurrent(self, terms: Terms, state: Any) -> tuple[Tensor, Any]:
        """Return the heads (b, h, n, head_dim) and the state after them, one token after another."""
        heads = []
        for of_token in zip(*(term.split(1, dim=2) for term in terms), strict=True):  # (b, h, 1, ·) each
            y, state = self.update(state, *of_token)
            heads.append(y)
        return torch.cat(heads, dim=2), state

    def mixed(self, terms: Terms, state: Any) -> tuple[Tensor, Any]:
        """Return the same as `recurrent`, in the form that the layer is named for."""
        return self.recurrent(terms, state)

    def run(self, x: Tensor, state: Any, form: Form) -> tuple[Tensor, Any]:
        """Return the layer's output (b, n, d) and the state after it."""
        heads, state = form(self.terms(x), state)
        return self.out_proj(concatenated(heads.to(x.dtype))), state

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.run(x, self.start(x.shape[0], x.shape[1]), self.mixed)
        return y  # (b, n, d)

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Process one more token: (b, d) -> (b, d). The cost does not depend on the number of earlier tokens."""
        y, state = self.run(x_t[:, None], state, self.recurrent)
        return y[:, 0], state

    def prefill(self, x: Tensor, state: Any) -> Any:
        """Return the state after t more tokens (b, t, d)."""
        return self.run(x, state, self.mixed)[1]


class Chunks:
    """n tokens in `count` chunks of `size`, the last of them filled up with zeros.

    Products leave the filled-up rows out, so that their work is linear in n, whatever n is.
    """

    def __init__(self, n: int, size: int) -> None:
        self.n, self.size, self.count = n, size, -(-n // size)
        self.rest = n % size  # tokens of a last chunk that is not full; 0 if all are

    def split(self, tokens: Tensor, filling: float = 0.0) -> Tensor:
        """Return the tokens by chunk: (b, h, n, e) -> (b, h, count, size, e)."""
        filled = pad(tokens, (0, 0, 0, -self.n % self.size), value=filling) if self.rest else tokens
        return filled.unflatten(2, (self.count, self.size))

    def join(self, chunks: Tensor) -> Tensor:
        """Return the tokens in a row: (b, h, count, size, e) -> (b, h, n, e)."""
        return chunks.flatten(2, 3)[:, :, : self.n]

    def rows(self, a: Tensor, b: Tensor) -> Tensor:
        """Return a b of each chunk, where the rows of `a` are tokens."""
        if not self.rest:
            return a @ b
        last = a[:, :, -1:, : self.rest] @ b[:, :, -1:]
        last = pad(last, (0, 0, 0, self.size - self.rest))
        return torch.cat([a[:, :, :-1] @ b[:, :, :-1], last], dim=2)

    def sums(self, a: Tensor, b: Tensor) -> Tensor:
        """Return aᵀ b of each chunk, a sum over its tokens."""
        if not self.rest:
            return a.mT @ b
        last = a[:, :, -1:, : self.rest].mT @ b[:, :, -1:, : self.rest]
        return torch.cat([a[:, :, :-1].mT @ b[:, :, :-1], last], dim=2)


def scanned(state: Tensor, decay: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the state before each chunk, (b, h, count, e, head_dim), and the state after the last one.

    Each chunk turns a state H into decay ⊙ H + added.
    """
    states = [state]
    for decay_c, added_c in zip(decay.unbind(2), added.unbind(2), strict=True):
        states.append(torch.addcmul(added_c, decay_c, states[-1]))
    return torch.stack(states, dim=2)[:, :, :-1], states[-1]


def log_decays(log_decay: Tensor) -> Tensor:
    """Return Σ_{j < s ≤ i} log decay_s for the pairs j ≤ i of a chunk, and −∞ for all others.

    (…, size, 1) -> (…, size, size). Each pair has a sum of its own, as in Dao & Gu 2024, listing 1. A difference of two
    sums from the chunk's beginning would lose digits if the decay is fast.
    """
    size = log_decay.shape[-2]
    earlier = torch.ones(size, size, dtype=torch.bool, device=log_decay.device).tril(-1)
    between = torch.where(earlier, log_decay, 0.0).cumsum(-2)
    return between.masked_fill(earlier.mT, float("-inf"))


def decays(log_decay: Tensor) -> Tensor:
    """Return Π_{j < s ≤ i} decay_s for the pairs j ≤ i of a chunk, and 0 for all others."""
    return log_decays(log_decay).exp()
