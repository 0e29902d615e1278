"""Linear recurrence of positive numbers without a loop: two prefix sums in log space.

    h_t = Σ_{s ≤ t} (Π_{s < j ≤ t} a_j) b_s = exp( A_t + log Σ_{s ≤ t} exp(log b_s − A_s) ),   A_t = Σ_{j ≤ t} log a_j

Heinsen 2023, "Efficient Parallelization of a Ubiquitous Sequential Computation"; Feng et al. 2024, appendix B. The
inner sum is a `logcumsumexp`, because exp(−A_s) alone would overflow after a hundred steps. Since h_0 = 0, the sum has
no term for h_0.

A prefix sum is one kernel and counts as one operation. The kernel does not reveal how deep the scan inside it is.

Precision: A_t grows like n, and h_t is the small remainder after A_t cancels. The gradient of log a_t is also such a
remainder, of a sum over all later tokens. Both are therefore computed in float64, for every dtype of x. Sums in float32
would be enough for the outputs of bfloat16 and float16. At n = 4096, however, the error of the gate's bias gradient was
as large as the gradient itself. For inputs in float64, no wider dtype exists.
"""

from typing import Any

import torch
from torch import Tensor


def log_scan(log_a: Tensor, log_b: Tensor) -> Tensor:
    """Return h from log a and log b: (b, n, d) -> (b, n, d), in their dtype."""
    # Widen before the sum: if the sum itself widened its input, its backward pass would not be in the wider dtype.
    a_star = torch.cumsum(log_a.double(), dim=1)  # (b, n, d), A_t
    log_h = a_star + torch.logcumsumexp(log_b - a_star, dim=1)  # (b, n, d)
    return torch.exp(log_h).to(log_a.dtype)  # (b, n, d)


def refusal(case: Any) -> str | None:
    """Return why a case cannot be scanned in log space, or None if nothing prevents it."""
    if case.dtype == "float64":
        return "its sums in log space cost digits that float64 is chosen for, and no dtype is wider"
    return None
