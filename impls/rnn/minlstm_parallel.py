"""minLSTM without a loop: the recurrence of `minlstm.py` as a parallel scan in log space.

    log a_t = log σ(−r_t),   log b_t = log σ(r_t) + log g(W_h x_t + b_h),   r_t = log i_t − log f_t

Feng et al. 2024, "Were RNNs All We Needed?", appendix B. The advantage over `minlstm.py` is that of
`mingru_parallel.py` over `mingru.py`. The scan is in `log_scan.py`. Decoding is one token at a time, inherited from
`minlstm.py`.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from impls.rnn.log_scan import log_scan, refusal
from impls.rnn.minlstm import MinLSTM
from impls.rnn.positive import log_g


class ParallelMinLSTM(MinLSTM):
    """(b, n, d) -> (b, n, d): every h_t."""

    supports = staticmethod(refusal)

    def forward(self, x: Tensor) -> Tensor:
        ratio = self.log_ratio(x)  # (b, n, d)
        return log_scan(logsigmoid(-ratio), logsigmoid(ratio) + log_g(self.candidate(x)))  # (b, n, d)
