"""Layers that read a part of their weights."""

import torch
from torch import Tensor, nn

EXPERTS, ROWS = 256, 512


class OneExpert(nn.Module):
    """All tokens go to the expert with the highest score."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.router = nn.Linear(d_model, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(d_model, d_model, bias=False) for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        return self.experts[int(self.router(x[0, 0]).argmax())](x)


class StackedExperts(nn.Module):
    """Two of the experts that are stacked in one tensor, the first one twice."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.experts = nn.Parameter(torch.randn(EXPERTS, d_model, d_model) / d_model)
        self.register_buffer("chosen", torch.tensor([7, 200, 7]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.experts[self.chosen].sum(0)


class Rows(nn.Module):
    """The rows of a table that `take` reads, one for each token."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(ROWS, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.take(torch.arange(x.shape[1]))

    def take(self, at: Tensor) -> Tensor:
        return nn.functional.embedding(at, self.table)


class Selected(Rows):
    def take(self, at: Tensor) -> Tensor:
        return self.table.index_select(0, at)


class Gathered(Rows):
    def take(self, at: Tensor) -> Tensor:
        return self.table.gather(0, at[:, None].expand(-1, self.table.shape[1]))


class Sliced(Rows):
    def take(self, at: Tensor) -> Tensor:
        return self.table[: len(at)]


class Strided(Rows):
    """Every second row, without a copy."""

    def take(self, at: Tensor) -> Tensor:
        return self.table[: 2 * len(at) : 2]


class StepByStep(Rows):
    """Each row by an operation of its own, and the first one again."""

    def take(self, at: Tensor) -> Tensor:
        return torch.stack([*self.table[1 : len(at)].unbind(), self.table[0] + self.table[0]])
