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


class Parts(nn.Module):
    """A token and something of a large table, by an operation that need not read all of it."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d = d_model
        self.register_buffer("table", torch.randn(ROWS, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.of_table(x)

    def of_table(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Corner(Parts):
    """One point for each channel, all of them in a corner of an image."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("places", 0.01 * torch.rand(1, 1, d_model, 2) - 1)

    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.grid_sample(self.table[None, None], self.places, align_corners=True)[0, 0]


class Sorted(Parts):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("few", torch.randn(d_model))
        self.register_buffer("table", torch.linspace(-1, 1, ROWS))


class Searched(Sorted):
    def of_table(self, x: Tensor) -> Tensor:
        return torch.searchsorted(self.table, self.few)


class Bucketized(Sorted):
    def of_table(self, x: Tensor) -> Tensor:
        return torch.bucketize(self.few, self.table)


class AmongFew(Sorted):
    """It looks for each value until the value is found."""

    def of_table(self, x: Tensor) -> Tensor:
        return torch.isin(self.few, self.table)


class Equal(Parts):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("other", torch.randn(ROWS, d_model))

    def of_table(self, x: Tensor) -> float:  # type: ignore[override]
        return float(torch.equal(self.table, self.other))


class AddedTo(Parts):
    """A state of which one row changes."""

    def of_table(self, x: Tensor) -> Tensor:
        return self.table.index_add_(0, torch.arange(3, 4), 0 * x[0, :1])[3]


class FilledIn(Parts):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("hidden", torch.rand(ROWS, d_model) > 0.5)

    def of_table(self, x: Tensor) -> Tensor:
        return self.table.masked_fill_(self.hidden, 0.0)[3]


class FewSources(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return torch.zeros(self.d).scatter_add(0, torch.arange(4), self.table[:, 0])


class LowerHalf(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return x @ self.table[: self.d].tril()


class LongSteps(Parts):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("weight", torch.randn(d_model, d_model, 1))

    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.conv1d(self.table.t()[None], self.weight, stride=ROWS)[0, :, 0]


class Pooled(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(self.table[None], (1, 1), stride=(ROWS, 1))[0]


class Reduced(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.interpolate(self.table[None, None], (1, self.d))[0, 0]


class Cropped(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.pad(self.table, (0, 0, 0, 1 - ROWS))


class Reflected(Parts):
    """All but the last two rows are cropped."""

    mode = "reflect"

    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.pad(self.table.t()[None], (2 - ROWS, 0), mode=self.mode)[0].sum(1)


class Replicated(Reflected):
    mode = "replicate"


class Widened(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.pad(self.table, (0, 0, 0, 1)).sum(0)


class OneClass(Parts):
    """The loss of one class in each row."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("classes", torch.randint(d_model, (ROWS,)))

    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.nll_loss(self.table, self.classes)


class FirstKeys(Parts):
    """Under a causal mask from the top left, the last query sees no key of a later number."""

    def of_table(self, x: Tensor) -> Tensor:
        keys = self.table.expand(x.shape[0], 1, -1, -1)
        return nn.functional.scaled_dot_product_attention(x[:, None], keys, keys, is_causal=True)[:, 0]


class Overwritten(Parts):
    """Memory that stays from call to call, and is written anew in each."""

    def of_table(self, x: Tensor) -> Tensor:
        return self.table[: x.shape[1]].copy_(x[0]).tanh()


class HalfOverwritten(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        self.table[:4] = x[0, :4]
        return self.table[:8].sum(0)


class WithinItself(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return self.table[1].copy_(self.table[0])


class LongKernel(Parts):
    """Most of its taps see padding alone."""

    taps, padding = ROWS, ROWS // 2

    def of_table(self, x: Tensor) -> Tensor:
        weight = self.table[: self.taps].t()[:, None]
        y = nn.functional.conv1d(x.transpose(1, 2), weight, padding=self.padding, groups=self.d)
        return y[..., : x.shape[1]].transpose(1, 2)


class ShortKernel(LongKernel):
    taps, padding = 3, 1


class Dilated(LongSteps):
    """Its two taps see the first and the last row."""

    def of_table(self, x: Tensor) -> Tensor:
        weight = self.weight.expand(-1, -1, 2)
        return nn.functional.conv1d(self.table.t()[None], weight, dilation=ROWS - 1)[0, :, 0]


class CropsItsEnds(LongSteps):
    """What the first and last four rows would add is cropped."""

    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.conv_transpose1d(self.table.t()[None], self.weight, padding=4)[0, :, 0]


class Widening(LongSteps):
    """Nothing is cropped."""

    def of_table(self, x: Tensor) -> Tensor:
        return nn.functional.conv_transpose1d(self.table.t()[None], self.weight, stride=2)[0, :, 0]


class PivotsAlone(Parts):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("pivots", torch.arange(1, d_model + 1, dtype=torch.int32))

    def of_table(self, x: Tensor) -> Tensor:
        return x @ torch.lu_unpack(self.table[: self.d], self.pivots, unpack_data=False)[0]


class PatchedOver(Parts):
    def of_table(self, x: Tensor) -> Tensor:
        return torch.slice_scatter(self.table, x[0, :1], 0, 1, 2)[3]


class FrozenKernel(nn.Module):
    """The gradient of its input needs no input."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, 3, padding=1, bias=False).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.mT).mT
