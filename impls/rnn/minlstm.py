"""minLSTM with the loop over time in Python.

    f_t = σ(W_f x_t + b_f),   i_t = σ(W_i x_t + b_i),   h̃_t = g(W_h x_t + b_h)
    h_t = f_t / (f_t + i_t) ⊙ h_{t-1} + i_t / (f_t + i_t) ⊙ h̃_t,   h_0 = 0

Feng et al. 2024, "Were RNNs All We Needed?", section 3.2, with the g of appendix B (`positive.py`). Compared with
minGRU, it has two gates. Only their ratio matters, because they are normalised to a sum of 1. The LSTM's output gate
and cell are removed. The paper does not specify h_0: every form here uses 0.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from impls.rnn.diagonal import DiagonalRecurrence
from impls.rnn.positive import g


class MinLSTM(DiagonalRecurrence):
    """(b, n, d) -> (b, n, d): every h_t, all of them positive. `num_heads` is accepted but unused."""

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
