"""The activation that keeps the states of minGRU and minLSTM positive, so that they have logarithms.

    g(x) = x + 0.5 for x ≥ 0,  σ(x) for x < 0

Feng et al. 2024, "Were RNNs All We Needed?", appendix B. Continuous, rising, and with its logarithm at hand.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def g(x: Tensor) -> Tensor:
    """g itself, elementwise."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def log_g(x: Tensor) -> Tensor:
    """log g, elementwise, without going through g, which a very negative x would round to 0."""
    # The side that is not taken has a gradient, too, and a logarithm of what is below 0 would make that NaN.
    # The clamp is below 0 and not at it: at its bound a clamp has no gradient in torch 2.11, and one in 2.13.
    return torch.where(x >= 0, torch.log(x.clamp_min(-0.25) + 0.5), logsigmoid(x))
