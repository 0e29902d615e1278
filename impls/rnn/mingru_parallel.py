"""minGRU without a loop: the recurrence of `mingru.py` as a parallel scan in log space.

    log a_t = log σ(−k_t),   log b_t = log σ(k_t) + log g(W_h x_t + b_h),   k_t = W_z x_t + b_z

Feng et al. 2024, "Were RNNs All We Needed?", appendix B. Advantage over `mingru.py`: the number of operations does not
grow with n, and a GPU is as busy as with one large matrix. The weights and their meaning are unchanged. The scan is in
`log_scan.py`. Decoding is one token at a time, inherited from `mingru.py`.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from impls.rnn.log_scan import log_scan, refusal
from impls.rnn.mingru import MinGRU
from impls.rnn.positive import log_g


class ParallelMinGRU(MinGRU):
    """(b, n, d) -> (b, n, d): every h_t."""

    supports = staticmethod(refusal)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate(x)  # (b, n, d)
        return log_scan(logsigmoid(-gate), logsigmoid(gate) + log_g(self.candidate(x)))  # (b, n, d)
