"""Layers whose operations need one another in ways that no argument shows, or that look as if they did."""

import copy
import pickle
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import register_flop_formula


class Plain(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()


class FollowsNumbers(Plain):
    """Each step chooses the token that the next one reads."""

    def forward(self, x: Tensor) -> Tensor:
        at, steps = 0, []
        for t in range(x.shape[1]):
            at = int((x[0, at, 0] * 1000 + t).abs().long() % x.shape[1])
            steps.append(x[:, at])
        return torch.stack(steps, 1)


class CarriesAFloat(Plain):
    """One of Python's numbers goes from token to token, and each token is divided by it."""

    def forward(self, x: Tensor) -> Tensor:
        gain, tokens = 1.0, []
        for t in range(x.shape[1]):
            gain = 0.9 * gain + 0.1 * abs(x[0, t, 0].item())
            tokens.append(x[:, t] / gain)
        return torch.stack(tokens, 1)


class CarriesAFloatOfAList(Plain):
    def forward(self, x: Tensor) -> Tensor:
        gain, tokens = 1.0, []
        for t, number in enumerate(x[0, :, 0].tolist()):
            gain = 0.9 * gain + 0.1 * abs(number)
            tokens.append(x[:, t] / gain)
        return torch.stack(tokens, 1)


class ReadsOneNumber(Plain):
    """That existed before the call."""

    def forward(self, x: Tensor) -> Tensor:
        return x.exp() * abs(x[0, 0, 0].item())


class CutsTokens(Plain):
    """As many as have a norm, by one of Python's numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return self.cut(x, (x.norm(dim=-1) > 0).sum(-1).max())

    def cut(self, x: Tensor, length: Tensor) -> Tensor:
        return nn.functional.pad(x[:, : int(length)].exp(), (0, 0, 0, x.shape[1] - int(length)))


class SlicesTokens(CutsTokens):
    def cut(self, x: Tensor, length: Tensor) -> Tensor:
        return x[:, :length].exp() * 2


class SelectsAToken(CutsTokens):
    def cut(self, x: Tensor, length: Tensor) -> Tensor:
        return x + (x[:, length - 1].exp() * 2)[:, None]


class SplitsTokens(CutsTokens):
    """Torch's C++ reads where."""

    def cut(self, x: Tensor, length: Tensor) -> Tensor:
        return x + torch.tensor_split(x, length[None] - 1, 1)[1].exp() * 2


class CountsTokens(Plain):
    """The size of a result is such a number too."""

    def forward(self, x: Tensor) -> Tensor:
        length = self.count(x.sum((0, 2)) > -1e9)
        return nn.functional.pad(x[:, :length] * 2, (0, 0, 0, x.shape[1] - length))

    def count(self, mask: Tensor) -> int:
        return mask.nonzero().shape[0]


class CountsByMask(CountsTokens):
    def count(self, mask: Tensor) -> int:
        return len(mask[mask])


class CountsLater(CountsTokens):
    def count(self, mask: Tensor) -> int:
        return (mask.masked_select(mask).float() * 2).numel()


class LooksAtRows(Plain):
    """The number of rows that whole numbers choose depends on no content."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.exp()[:, torch.arange(x.shape[1])]
        return x * torch.ones(rows.shape)


class LooksAtTheEnd(Plain):
    """Nothing follows."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.exp()
        self.longest = int(y.sum().long())
        return y


class HasLengths(Plain):
    """Lengths that exist before the call are no result of it."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("lengths", torch.tensor([7, 9]))

    def forward(self, x: Tensor) -> Tensor:
        first, last = self.lengths.tolist()
        assert int(self.lengths.diff().max()) == last - first
        return torch.cat([x[:, :first].exp(), x[:, first:last], x[:, int(self.lengths[1]) :]], 1)


class ChoosesExperts(Plain):
    """Each expert's tokens are as many as there happen to be, and no expert waits for another."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.router = nn.Linear(d_model, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        weights, choices = self.router(tokens).softmax(-1).max(-1)
        y = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            (chosen,) = torch.where(choices == number)
            y.index_add_(0, chosen, expert(tokens[chosen]) * weights[chosen, None])
        return y.view(x.shape)


class CopiesItsState(Plain):
    """An Elman network without weights, whose state is copied as any object of Python's."""

    def forward(self, x: Tensor) -> Tensor:
        h, steps = x[:, 0], []
        for t in range(x.shape[1]):
            h = torch.tanh(copy.deepcopy(h.detach()) + x[:, t])
            steps.append(h)
        return torch.stack(steps, 1)


class SetsItsStorage(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return torch.empty(0).set_((x * 2).untyped_storage(), 0, x.shape) + 1


class Pickles(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return pickle.loads(pickle.dumps((x * 2).detach())) + 1


def scan(x: Tensor) -> Tensor:
    h = torch.zeros_like(x[:, 0])
    return torch.stack([h := torch.tanh(h + x_t) for x_t in x.unbind(1)], 1)


def registered(name: str) -> Callable[[Tensor], Tensor]:
    return torch.library.custom_op(name, scan, mutates_args=())


scan_of_known_work, scan_of_torchs_formula = registered("dependent::first"), registered("dependent::second")


@register_flop_formula(torch.ops.dependent.second)
def scan_flops(shape: torch.Size, *_: object, **__: object) -> int:
    return 2 * shape.numel()


class DeclaresItsWork(Plain):
    kernels: ClassVar = {"dependent::first": {"flops": lambda x, out: 2 * x.numel()}}

    def forward(self, x: Tensor) -> Tensor:
        return scan_of_known_work(x)


class DeclaresItsWorkToTorch(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return scan_of_torchs_formula(x)
