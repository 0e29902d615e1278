"""Layers whose operations read values that depend on the input."""

import torch
from torch import Tensor, nn
from torch.nn import functional

EXPERTS, CODES = 4, 32


class Product(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(d_model, d_model) / d_model**0.5)


class RoutesBySign(Product):
    """Half of the tokens, more or less, get a product."""

    def forward(self, x: Tensor) -> Tensor:
        positive = x[..., 0] > 0
        y = x.clone()
        y[positive] = x[positive] @ self.w
        return y


class RoutesByNonzero(Product):
    def forward(self, x: Tensor) -> Tensor:
        (rows,) = (x[0, :, 0] > 0).nonzero(as_tuple=True)
        return x.index_copy(1, rows, x[:, rows] @ self.w)


class SkipsBySum(Product):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w if x.sum() > 0 else x.clone()


class SkipsByNumber(Product):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w if x[0, 0].tolist()[0] > 0 else x.clone()


class Converges(Product):
    """A fixed point, with as many steps as the input needs."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        while y.norm() > 1:
            y = 0.5 * torch.tanh(y @ self.w)
        return y + x


class CountsEachSign(Product):
    """The number of different rows decides the size of a product."""

    def forward(self, x: Tensor) -> Tensor:
        signs, which = x[0, :, :3].sign().unique(dim=0, return_inverse=True)
        return (functional.pad(signs, (0, x.shape[-1] - 3)) @ self.w)[which][None]


class TopExperts(nn.Module):
    """Two experts for each token, whichever they are: the FLOPs are the same, and the sizes of the groups differ."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.router = nn.Linear(d_model, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(d_model, d_model, bias=False) for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        weights, choices = self.router(tokens).topk(2)
        y = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(choices == number)
            y.index_add_(0, rows, expert(tokens[rows]) * weights[rows, place, None])
        return y.view(x.shape)


class AllExperts(TopExperts):
    """Every expert computes every token, and the weights of those that are not chosen are zero."""

    def forward(self, x: Tensor) -> Tensor:
        weights, choices = self.router(x).topk(2)
        gates = torch.zeros(*x.shape[:2], EXPERTS).scatter(-1, choices, weights)
        outputs = torch.stack([expert(x) for expert in self.experts], -1)
        return (outputs * gates[:, :, None]).sum(-1)


class Codes(Product):
    """Each token is replaced by the nearest row of a table: how many rows are read depends on the tokens."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.codes = nn.Parameter(torch.randn(CODES, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.codes[(x @ self.w).abs().argmax(-1)]


class FewTokens(Product):
    """A fixed number of the tokens, whichever they are."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.norm(dim=-1).topk(4).indices[..., None].expand(-1, -1, x.shape[-1])
        return x.scatter_add(1, rows, x.gather(1, rows) @ self.w)
