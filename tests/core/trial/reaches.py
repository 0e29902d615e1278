"""Layers whose tokens meet near or far ones, each what its name says."""

from typing import ClassVar

import torch
from torch import Tensor, nn


class Pointwise(nn.Module):
    """No token meets another. It claims that all do."""

    claims: ClassVar = {"path": "1"}

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Convolution(Pointwise):
    """Each token meets four to either side."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.conv = nn.Conv1d(d_model, d_model, 9, padding=4)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.mT).mT


class Windows(Pointwise):
    """Attention in windows of 16 tokens that share none."""

    def forward(self, x: Tensor) -> Tensor:
        windows = x.unflatten(1, (-1, min(16, x.shape[1])))
        return ((windows @ windows.mT).softmax(-1) @ windows).flatten(1, 2)


class Masked(Pointwise):
    """Attention to 15 tokens to either side, by a mask over all."""

    def forward(self, x: Tensor) -> Tensor:
        t = torch.arange(x.shape[1])
        scores = (x @ x.mT).masked_fill((t[:, None] - t).abs() > 15, float("-inf"))
        return scores.softmax(-1) @ x


class Full(Pointwise):
    """Attention to all tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x


class Without(Pointwise):
    """Full attention, of which autograd knows nothing."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x
