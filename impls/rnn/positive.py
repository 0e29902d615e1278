"""The activation that keeps the states of minGRU and minLSTM positive, so that their logarithms exist.

    g(x) = x + 0.5 for x ≥ 0,  σ(x) for x < 0

Feng et al. 2024, "Were RNNs All We Needed?", appendix B. It is continuous and increasing, and its logarithm is easy to
compute.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def g(x: Tensor) -> Tensor:
    """Return g(x), elementwise."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def log_g(x: Tensor) -> Tensor:
    """Return log g(x), elementwise. It does not compute g first, which would round to 0 for a very negative x."""
    # The branch not taken also has a gradient, and the logarithm of a negative number would make it NaN.
    # The bound is below 0 instead of 0: at its bound, a clamp has no gradient in torch 2.11 but has one in 2.13.
    return torch.where(x >= 0, torch.log(x.clamp_min(-0.25) + 0.5), logsigmoid(x))
