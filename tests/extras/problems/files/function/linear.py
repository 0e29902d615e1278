"""A solution that is a function."""

from torch import Tensor
from torch.nn.functional import linear


def forward_fn(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return linear(x, weight) + eps
