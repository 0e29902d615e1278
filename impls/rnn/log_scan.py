"""A linear recurrence of positive numbers without a loop: two prefix sums, in log space.

    h_t = Σ_{s ≤ t} (Π_{s < j ≤ t} a_j) b_s = exp( A_t + log Σ_{s ≤ t} exp(log b_s − A_s) ),   A_t = Σ_{j ≤ t} log a_j

Heinsen 2023, "Efficient Parallelization of a Ubiquitous Sequential Computation"; Feng et al. 2024, appendix B. The
sum inside is a `logcumsumexp`, since exp(−A_s) alone would overflow after a hundred steps. With h_0 = 0 it has no
term for h_0.

A prefix sum is one kernel, and counts as one operation: how deep the scan inside it is, the kernel does not tell.

Precision. A_t grows like n, and h_t is what is left when it cancels; so does the gradient of log a_t, which is a sum
over all later tokens. Both are therefore done in float64, whatever the dtype of x. With sums in float32 the outputs
of bfloat16 and float16 would do, but at n = 4096 the gradient of the gate's bias was off by as much as itself. What
is float64 already has nothing wider to go to.
"""

from typing import Any

import torch
from torch import Tensor


def log_scan(log_a: Tensor, log_b: Tensor) -> Tensor:
    """h of log a and log b: (b, n, d) -> (b, n, d), in their dtype."""
    # Widened before the sum, not by it: a sum that widens its input has a backward pass that is not widened.
    a_star = torch.cumsum(log_a.double(), dim=1)  # (b, n, d), A_t
    log_h = a_star + torch.logcumsumexp(log_b - a_star, dim=1)  # (b, n, d)
    return torch.exp(log_h).to(log_a.dtype)  # (b, n, d)


def refusal(case: Any) -> str | None:
    """Why a case cannot be scanned in log space; None if nothing speaks against it."""
    if case.dtype == "float64":
        return "its sums in log space cost digits that float64 is chosen for, and no dtype is wider"
    return None
