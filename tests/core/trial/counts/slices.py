"""Layers that change or read parts of a tensor, each named after it. No step needs another, but for one layer."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


class Steps(nn.Module):
    """A loop over time."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        y = self.start(x)
        for t in range(x.shape[1]):
            self.step(y, x, t)
        return y

    def start(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        raise NotImplementedError


class AttendsWithAMask(nn.Module):
    """Torch adds the mask to the scores in place, and out of place under observation. Other sums are not in place."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("mask", torch.zeros(24, 24))

    def forward(self, x: Tensor) -> Tensor:
        x = x + 1
        with sdpa_kernel(SDPBackend.MATH):
            return x + functional.scaled_dot_product_attention(x, x, x, attn_mask=self.mask)


class BiasOfExpanded(nn.Module):
    """`linear` adds the bias in place to the product of what is not contiguous."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.mT.contiguous().mT)


class AttendsAfterALSTM(AttendsWithAMask):
    """Of the sums in a real call, one is within the kernel of the LSTM."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.lstm(x)[0])


class AddsToSlices(Steps):
    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        y[:, t] += x[:, t].tanh()


class AddsToRows(Steps):
    """By number, and not as slices."""

    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        y.index_add_(1, torch.tensor([t]), x[:, t : t + 1].tanh())


class PutsRows(Steps):
    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        rows = torch.tensor([t])
        y[:, rows] += x[:, rows].tanh()


class AddsToHalves(Steps):
    """Both halves of a complex number, in views of another dtype."""

    def start(self, x: Tensor) -> Tensor:
        return torch.complex(x, x)

    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        parts = torch.view_as_real(y)
        parts[:, t, :, 0] += 1
        parts[:, t, :, 1] += 1

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).real.clone()


class CopiesOverNew(nn.Module):
    """Row by row into a copy of memory that nothing has written."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return torch.empty_like(x).index_copy(1, torch.arange(x.shape[1]), x * 2)


class ReusesMemory(Steps):
    """One scratch buffer, overwritten before each step reads it."""

    def start(self, x: Tensor) -> Tensor:
        self.scratch = torch.empty_like(x[:, 0])
        return torch.zeros_like(x)

    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        torch.tanh(x[:, t], out=self.scratch)
        y[:, t] = self.scratch.mul_(2)


class ReusesHalves(ReusesMemory):
    """It overwrites the halves of its scratch one after another."""

    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        half = x.shape[2] // 2
        self.scratch[:, :half].copy_(x[:, t, :half])
        self.scratch[:, half:].copy_(x[:, t, half:])
        y[:, t] = self.scratch.mul_(2)


class AddsUpSlices(Steps):
    """Each step needs the one before."""

    def step(self, y: Tensor, x: Tensor, t: int) -> None:
        y[:, t] += x[:, t]
        if t:
            y[:, t] += y[:, t - 1]


class ListOfTensors(Steps):
    """One operation for a list: each tensor has a chain of its own."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.sin(), x[:, :1].cos()
        for _ in range(4):
            second = second.sin()
        sums = torch._foreach_add([first, second], 1.0)
        torch._foreach_mul_(sums, 2.0)
        return sums[0].exp().exp() + sums[0]


class ListOfSlices(Steps):
    """A list of slices of one tensor, n times, each time another is first."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.tanh()
        torch._foreach_add_(list(y.unbind(1)), 1.0)
        return y


class Whole(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()


class ExpandedOutput(Whole):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1, keepdim=True).expand_as(x)


class Unchanged(Whole):
    """As dropout does in evaluation: a view of the input moves nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, training=False).transpose(1, 2).transpose(1, 2)


class LooksAtASum(Whole):
    """A truth value that Python reads is no step."""

    def forward(self, x: Tensor) -> Tensor:
        return x.exp() if x.sum() < 1e9 else x


class ReadsAPart(Whole):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x, x, x], 1)[:, : x.shape[1]].exp()


class FillsAPart(Whole):
    """The first tokens of a buffer that has room for many more."""

    def forward(self, x: Tensor) -> Tensor:
        cache = x.new_empty(x.shape[0], 10 * x.shape[1], x.shape[2])
        cache[:, : x.shape[1]] = x.tanh()
        return cache[:, : x.shape[1]].exp()


class ReadsAPartOfEach(Whole):
    """New memory in each step, which is freed after it."""

    def forward(self, x: Tensor) -> Tensor:
        steps = [torch.cat([x_t, x_t])[: len(x_t)].exp() for x_t in x.unbind(1)]
        return torch.stack(steps, 1)


class KeepsItsMean(Whole):
    """A buffer that each call writes anew."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("mean", torch.zeros(24, d_model))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.mean.copy_(x.mean(0))
        return x * 2


class Folds(Whole):
    """Two elements of each window of five are padding at either end of the tokens, and one beside them."""

    def forward(self, x: Tensor) -> Tensor:
        windows = torch.cat([x.mT] * 5, 1)
        return nn.functional.fold(windows, (x.shape[1], 1), (5, 1), padding=(2, 0))[..., 0].mT


class FoldsAll(Whole):
    """Windows side by side, of two elements each."""

    def forward(self, x: Tensor) -> Tensor:
        windows = torch.cat([x.mT] * 4, 1)
        return nn.functional.fold(windows, (2 * x.shape[1], 2), (2, 2), stride=2)[..., ::2, 0].mT


class ArcTangent(Whole):
    def forward(self, x: Tensor) -> Tensor:
        return x.atan()


class LogAddExp(Whole):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("beside", torch.ones(3, 24, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return torch.logaddexp(x, self.beside)


class _Adds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        twice = gradient * 2
        return (twice + gradient) * twice


class AddsInItsBackwardPass(Whole):
    def forward(self, x: Tensor) -> Tensor:
        return _Adds.apply(x)


class Checkpointed(Whole):
    """Its sum is computed again in the backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.residual, x, use_reentrant=False)

    def residual(self, x: Tensor) -> Tensor:
        h = x * 2
        return (h + h.sin()).exp()


class SumsGradients(Whole):
    """The input's gradient is a sum of three. The last node before the first sum does no operation."""

    def forward(self, x: Tensor) -> Tensor:
        between = x + x * 2
        return x.sin() + between
