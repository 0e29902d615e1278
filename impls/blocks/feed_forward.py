"""Feed-forward network applied to each position separately: widen, apply ReLU, narrow.

    FFN(x) = max(0, x W_1 + b_1) W_2 + b_2

Vaswani et al. 2017, section 3.3. The inner width is 4d, the paper's ratio of 2048 to 512. The network therefore has
twice the weights of an attention: 8d² against 4d².
"""

import torch
from torch import Tensor, nn


class FeedForward(nn.Module):
    """(b, n, d) -> (b, n, d). Every position is computed in the same way, without the others."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(d_model, 4 * d_model)
        self.linear2 = nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.linear1(x))  # (b, n, 4d)
        return self.linear2(hidden)  # (b, n, d)
