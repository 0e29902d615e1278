"""minLSTM, its loop over time written in Python.

    f_t = σ(W_f x_t + b_f),   i_t = σ(W_i x_t + b_i),   h̃_t = g(W_h x_t + b_h)
    h_t = f_t / (f_t + i_t) ⊙ h_{t-1} + i_t / (f_t + i_t) ⊙ h̃_t,   h_0 = 0

Feng et al. 2024, "Were RNNs All We Needed?", section 3.2, with the g of appendix B (`positive.py`). Beyond minGRU:
two gates, of which only the ratio matters, as they are normalised to a sum of 1. The output gate and the cell of the
LSTM are gone. The paper leaves h_0 open: it is 0 here, in every form.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from impls.rnn.diagonal import DiagonalRecurrence
from impls.rnn.positive import g


class MinLSTM(DiagonalRecurrence):
    """(b, n, d) -> (b, n, d): every h_t, all of them positive. `num_heads` is accepted and not used."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.forget = nn.Linear(d_model, d_model)
        self.input = nn.Linear(d_model, d_model)
        self.candidate = nn.Linear(d_model, d_model)

    def log_ratio(self, x: Tensor) -> Tensor:
        """log(i / f), (…, d): i / (f + i) is its sigmoid, even where both gates are too small for their dtype."""
        return logsigmoid(self.input(x)) - logsigmoid(self.forget(x))

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ratio = self.log_ratio(x)  # (…, d)
        return torch.sigmoid(-ratio), torch.sigmoid(ratio) * g(self.candidate(x))
