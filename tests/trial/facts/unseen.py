"""Layers of whose work torch sees only a part."""

import torch
from torch import Tensor, nn


class OwnLayer(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)


class Numpy(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() * 2)


class NumpyInTheMiddle(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        return self.mix(torch.from_numpy(x.detach().numpy() * 2))


class WrittenByHand(OwnLayer):
    """As a C++ or Triton kernel does, that is handed addresses; its output is gone on with."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        y.detach().numpy()[:] = x.detach().numpy()
        return self.mix(y)


class KeepsItsResult(OwnLayer):
    """A cache that nobody empties."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = self.mix(x)
        return self.kept


class Identity(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        return x


class FillsWhatWasEmpty(OwnLayer):
    """Row by row, as a loop does."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        for t in range(x.shape[1]):
            y[:, t] = self.mix(x[:, t])
        return y


class IgnoresTheSum(OwnLayer):
    """The sum's memory is for its shape alone, and was never written."""

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.baddbmm(x.new_empty(x.shape[0], x.shape[1], x.shape[1]), x, x.mT, beta=0, alpha=0.5)
        return scores @ x


class HasConstants(OwnLayer):
    """One kept from before, as no buffer, and one made in each call."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.kept = [torch.full((d_model,), 2.0)]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.kept[0] + torch.tensor([0.5])
