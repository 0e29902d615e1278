"""Layers that take and return float32, and compute with fewer bits inside."""

import torch
from torch import Tensor, nn


class Exact(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def compute(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x)


class UnderAutocast(Exact):
    reference = Exact
    allowed_error = 0.05

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.compute(x)
        return y.float()


class CastsByHand(UnderAutocast):
    def forward(self, x: Tensor) -> Tensor:
        product = self.first.weight.bfloat16() @ x.bfloat16().transpose(1, 2)
        return self.second((product.float().transpose(1, 2) + self.first.bias).tanh())


def off_by(share: float, y: Tensor) -> Tensor:
    """The same values, with gradients that are too large by this share."""
    return y + share * (y - y.detach())


class WrongGradient(UnderAutocast):
    def forward(self, x: Tensor) -> Tensor:
        return off_by(0.2, super().forward(x))


class WrongInFloat32(Exact):
    """No product has few bits. Only its twin in float64 has the right gradients."""

    reference = Exact
    allowed_error = 0.05

    def forward(self, x: Tensor) -> Tensor:
        return off_by(0.02 * (x.dtype == torch.float32), self.compute(x))
