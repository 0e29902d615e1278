"""minGRU and minLSTM, recurrences that do not mix channels over time, each as a loop and as a parallel scan.

    h_t = a_t ⊙ h_{t-1} + b_t,   h_0 = 0,   a_t and b_t from x_t alone

Feng et al. 2024, "Were RNNs All We Needed?". The paper does not specify h_0: every form here uses 0.

Advantage over the gated layers: no product needs h_{t-1}, so all products are hoisted out of the loop. Only one
multiply-add per channel stays inside.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid


def g(x: Tensor) -> Tensor:
    """Return the activation g(x), elementwise: g(x) = x + 0.5 for x ≥ 0, σ(x) for x < 0.

    It keeps the states of minGRU and minLSTM positive, so that their logarithms exist. It is continuous and increasing,
    and its logarithm is easy to compute. Feng et al. 2024, appendix B.
    """
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def log_g(x: Tensor) -> Tensor:
    """Return log g(x), elementwise. It does not compute g first, which would round to 0 for a very negative x."""
    # The branch not taken also has a gradient, and the logarithm of a negative number would make it NaN.
    # The bound is below 0 instead of 0: at its bound, a clamp has no gradient in torch 2.11 but has one in 2.13.
    return torch.where(x >= 0, torch.log(x.clamp_min(-0.25) + 0.5), logsigmoid(x))


class DiagonalRecurrence(nn.Module):
    """Base of the recurrences whose previous state enters linearly and elementwise: (b, n, d) -> (b, n, d), every h_t.

    Each layer defines a_t and b_t in `terms`, and how the recurrence runs; the default is a loop in Python. The layer
    has no heads.

    The steps can also be grouped in any way: (a, b) after (a', b') is (a a', a b' + b). The parallel scans use this
    (Martin & Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length", section 2).
    """

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a and b of each token, computed from that token only: (…, d) -> (…, d) twice."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.terms(x)  # (b, n, d) each
        h = x.new_zeros(x.shape[0], x.shape[2])  # (b, d)
        states = []
        for a_t, b_t in zip(a.unbind(dim=1), b.unbind(dim=1), strict=True):  # n times (b, d) each
            h = torch.addcmul(b_t, a_t, h)  # (b, d)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return h_0 (b, d), the whole decoding state. Its size does not grow with the number of tokens."""
        return next(self.parameters()).new_zeros(batch_size, self.d_model)

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t and h_{t-1}."""
        a, b = self.terms(x_t)  # (b, d) each
        h = torch.addcmul(b, a, h)
        return h, h

    def prefill(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the state after t more tokens (b, t, d)."""
        a, b = self.terms(x)  # (b, t, d) each
        for a_t, b_t in zip(a.unbind(dim=1), b.unbind(dim=1), strict=True):
            h = torch.addcmul(b_t, a_t, h)
        return h


def log_scan(log_a: Tensor, log_b: Tensor) -> Tensor:
    """Return h from log a and log b without a loop: (b, n, d) -> (b, n, d), in their dtype.

    Two prefix sums in log space compute a linear recurrence of positive numbers:

        h_t = Σ_{s ≤ t} (Π_{s < j ≤ t} a_j) b_s = exp( A_t + log Σ_{s ≤ t} exp(log b_s − A_s) )
        A_t = Σ_{j ≤ t} log a_j

    Heinsen 2023, "Efficient Parallelization of a Ubiquitous Sequential Computation"; Feng et al. 2024, appendix B. The
    inner sum is a `logcumsumexp`, because exp(−A_s) alone would overflow after a hundred steps. Since h_0 = 0, the sum
    has no term for h_0.

    A prefix sum is one kernel and counts as one operation. The kernel does not reveal how deep the scan inside it is.

    Precision: A_t grows like n, and h_t is the small remainder after A_t cancels. The gradient of log a_t is also such
    a remainder, of a sum over all later tokens. Both are therefore computed in float64, for every dtype of x. Sums in
    float32 would be enough for the outputs of bfloat16 and float16. At n = 4096, however, the error of the gate's bias
    gradient was as large as the gradient itself. For inputs in float64, no wider dtype exists.
    """
    # Widen before the sum: if the sum itself widened its input, its backward pass would not be in the wider dtype.
    a_star = torch.cumsum(log_a.double(), dim=1)  # (b, n, d), A_t
    log_h = a_star + torch.logcumsumexp(log_b - a_star, dim=1)  # (b, n, d)
    return torch.exp(log_h).to(log_a.dtype)  # (b, n, d)


def refusal(case: Any) -> str | None:
    """Return why a case cannot be scanned in log space, or None if nothing prevents it."""
    if case.dtype == "float64":
        return "its sums in log space cost digits that float64 is chosen for, and no dtype is wider"
    return None


class MinGRU(DiagonalRecurrence):
    """minGRU: (b, n, d) -> (b, n, d), every h_t, all of them positive. `num_heads` is accepted but unused.

        z_t = σ(W_z x_t + b_z),   h̃_t = g(W_h x_t + b_h),   h_t = (1 − z_t) ⊙ h_{t-1} + z_t ⊙ h̃_t,   h_0 = 0

    Feng et al. 2024, section 3.1, with the g of appendix B. Compared with the GRU, neither gate nor candidate depends
    on h_{t-1}. A third of the products remains, all of them before the loop.
    """

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.gate = nn.Linear(d_model, d_model)
        self.candidate = nn.Linear(d_model, d_model)

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.gate(x)  # (…, d)
        return torch.sigmoid(-gate), torch.sigmoid(gate) * g(self.candidate(x))  # 1 − σ(x) = σ(−x), no digits lost


class ParallelMinGRU(MinGRU):
    """minGRU without a loop, as a parallel scan in log space: (b, n, d) -> (b, n, d), every h_t.

        log a_t = log σ(−k_t),   log b_t = log σ(k_t) + log g(W_h x_t + b_h),   k_t = W_z x_t + b_z

    Feng et al. 2024, appendix B. Advantage over `MinGRU`: the number of operations does not grow with n, and a GPU is
    as busy as with one large matrix. The weights and their meaning are unchanged. Decoding is one token at a time,
    inherited from `MinGRU`.
    """

    supports = staticmethod(refusal)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate(x)  # (b, n, d)
        return log_scan(logsigmoid(-gate), logsigmoid(gate) + log_g(self.candidate(x)))  # (b, n, d)


class MinLSTM(DiagonalRecurrence):
    """minLSTM: (b, n, d) -> (b, n, d), every h_t, all of them positive. `num_heads` is accepted but unused.

        f_t = σ(W_f x_t + b_f),   i_t = σ(W_i x_t + b_i),   h̃_t = g(W_h x_t + b_h)
        h_t = f_t / (f_t + i_t) ⊙ h_{t-1} + i_t / (f_t + i_t) ⊙ h̃_t,   h_0 = 0

    Feng et al. 2024, section 3.2, with the g of appendix B. Compared with minGRU, it has two gates. Only their ratio
    matters, because they are normalised to a sum of 1. The LSTM's output gate and cell are removed.
    """

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.forget = nn.Linear(d_model, d_model)
        self.input = nn.Linear(d_model, d_model)
        self.candidate = nn.Linear(d_model, d_model)

    def log_ratio(self, x: Tensor) -> Tensor:
        """Return log(i / f), (…, d). Its sigmoid is i / (f + i), even if both gates are too small for their dtype."""
        return logsigmoid(self.input(x)) - logsigmoid(self.forget(x))

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ratio = self.log_ratio(x)  # (…, d)
        return torch.sigmoid(-ratio), torch.sigmoid(ratio) * g(self.candidate(x))


class ParallelMinLSTM(MinLSTM):
    """minLSTM without a loop, as a parallel scan in log space: (b, n, d) -> (b, n, d), every h_t.

        log a_t = log σ(−r_t),   log b_t = log σ(r_t) + log g(W_h x_t + b_h),   r_t = log i_t − log f_t

    Feng et al. 2024, appendix B. The advantage over `MinLSTM` is that of `ParallelMinGRU` over `MinGRU`. Decoding is
    one token at a time, inherited from `MinLSTM`.
    """

    supports = staticmethod(refusal)

    def forward(self, x: Tensor) -> Tensor:
        ratio = self.log_ratio(x)  # (b, n, d)
        return log_scan(logsigmoid(-ratio), logsigmoid(ratio) + log_g(self.candidate(x)))  # (b, n, d)
