"""Layers whose calls differ from one another, or do what few layers do. Each is a product with `w` and more."""

import warnings
from array import array
from collections import deque
from operator import mul
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Product(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(d_model, d_model))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x @ self.w


class GrowingBuffer(Product):
    """Keeps a row of each token of each call, in a buffer."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("seen", torch.zeros(0, d_model), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = torch.cat([self.seen, x[0].detach()])
        return super().forward(x)


class GrowingState(GrowingBuffer):
    """A reference of its own size cannot load its state."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("seen", torch.zeros(0, d_model))


class KeepsAtEveryFourthCall(Product):
    every = 4

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x).tanh()
        if self.calls % self.every == 0:
            self.kept.append(torch.ones(100, x.shape[-1]))
        return y


class KeepsAtEverySeventhCall(KeepsAtEveryFourthCall):
    every = 7


class KeepsAtEverySeventeenthCall(KeepsAtEveryFourthCall):
    """The seventeenth call is the first one whose rest after the backward pass is noted."""

    every = 17


class KeepsALoss(Product):
    """A loss beside the output, with its graph, as a mixture of experts does."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x).tanh()
        self.loss = y.mean()
        return y * 2


class KeepsItsStates(Product):
    """All states, with their graphs: the list is made anew in each call."""

    def forward(self, x: Tensor) -> Tensor:
        state, self.states = x[:, 0], []
        for t in range(x.shape[1]):
            state = torch.tanh(state + x[:, t])
            self.states.append(state)
        return torch.stack(self.states, 1)


class Keeps(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.kept: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.kept.append(self.kept_of(y.detach()))
        return y

    def kept_of(self, y: Tensor) -> Any:
        raise NotImplementedError


class KeepsStorages(Keeps):
    def kept_of(self, y: Tensor) -> Any:
        return (y + 1).untyped_storage()


class KeepsOldStorages(Keeps):
    def kept_of(self, y: Tensor) -> Any:
        return (y + 1).storage()


class KeepsArrays(Keeps):
    def kept_of(self, y: Tensor) -> Any:
        return y.numpy().copy()


class KeepsViewsOfArrays(Keeps):
    def kept_of(self, y: Tensor) -> Any:
        return y.numpy().copy()[0, :1].T


class KeepsArraysInTuples(Keeps):
    """The garbage collector does not track a tuple of arrays alone."""

    def kept_of(self, y: Tensor) -> Any:
        return y.numpy().copy(), y.numpy().copy()


class KeepsAnArrayAndItsTensor(Keeps):
    """Both have the same memory, and the tensor is a part of it."""

    def kept_of(self, y: Tensor) -> Any:
        array = y.numpy().copy()
        return [array, torch.from_numpy(array[:, 1:])]


class KeepsMetaTensors(Keeps):
    def kept_of(self, y: Tensor) -> Any:
        return y.to("meta")


class KeepsBlockSparse(Keeps):
    """A block of 4 × 4, two offsets of rows, and a column, for which torch makes room for two."""

    def kept_of(self, y: Tensor) -> Any:
        blocks = torch.zeros(4, 4)
        blocks[0, 0] = 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls the format a beta
            return blocks.to_sparse_bsr((4, 4))


class KeepsByChannel(Keeps):
    """A byte for each number; for each channel a scale and a zero point, of 8 bytes each."""

    def kept_of(self, y: Tensor) -> Any:
        if y.dtype == torch.float64:  # in which its reference computes
            return y
        scales, zeros = torch.full(y.shape[2:], 0.1), torch.zeros(y.shape[2:], dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls them deprecated
            return torch.quantize_per_channel(y, scales, zeros, 2, torch.qint8)


class KeepsOpaque(Keeps):
    def kept_of(self, y: Tensor) -> Any:
        return y.contiguous().to_mkldnn()


class KeepsLosses(Product):
    """Only the graph of a loss keeps the softmax and the targets."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.losses: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        targets = torch.zeros(y.shape[1], dtype=torch.long)
        self.losses.append(functional.cross_entropy(y[0], targets))
        return y


class _Script(nn.Module):
    kept: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.kept = []

    def forward(self, x: Tensor) -> Tensor:
        self.kept.append(x + 1)
        return x


class KeepsInAScript(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls scripts deprecated
            self.script = torch.jit.script(_Script())

    def forward(self, x: Tensor) -> Tensor:
        return self.script(super().forward(x))


class ATableOfTheConstructor(Product):
    """As the rotations of Llama's code: in an attribute, and no buffer."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.table = torch.ones(100, d_model)
        self.same = {"weights": self.w, "rows": [self.table[:50]]}

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.table[: x.shape[1]]


class _TwiceByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factors = np.full(1000, 2.0)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * float(ctx.factors[0])


class SavesAnArray(Product):
    def forward(self, x: Tensor) -> Tensor:
        return _TwiceByNumpy.apply(super().forward(x))


class _Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


class ATableInAnObject(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.holder = _Holder({"rows": _Holder(torch.ones(100, d_model))})

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.holder.held["rows"].held[: x.shape[1]]


class ATableOfTheClass(Product):
    table = torch.ones(100, 8)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.table[: x.shape[1]]


class ATableAroundAFunction(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        table = torch.ones(100, d_model)
        self.scale = lambda y: y * table[: y.shape[1]]

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(super().forward(x))


class AFrozenScript(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls scripts deprecated
            self.scripts = [torch.jit.freeze(torch.jit.script(nn.Tanh().eval()))]

    def forward(self, x: Tensor) -> Tensor:
        return self.scripts[0](super().forward(x))


class ItsStateIsAnObject(Product):
    """A cache of all tokens, in an object that also knows the layer."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).cumsum(1)

    def start(self, batch_size: int, seq_len: int) -> _Holder:
        return _Holder(deque([torch.zeros(batch_size, 0, self.w.shape[0]), self]))

    def step(self, x_t: Tensor, state: _Holder) -> tuple[Tensor, _Holder]:
        cache = torch.cat([state.held[0], x_t[:, None]], 1)
        return (cache @ self.w).sum(1), _Holder(deque([cache, self]))


class ItsKeysHoldItsValues(Product):
    """A cache of keys, with the values as an attribute."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + x).cumsum(1)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        keys, keys_of_values = (torch.zeros(batch_size, 0, self.w.shape[0]) for _ in range(2))
        keys.values_of_keys = keys_of_values
        return keys

    def step(self, x_t: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        keys = torch.cat([state, x_t[:, None]], 1)
        keys.values_of_keys = torch.cat([state.values_of_keys, x_t[:, None]], 1)
        return ((keys + keys.values_of_keys) @ self.w).sum(1), keys


class KeepsItsTokens(Product):
    """Attention over x W. Its prefill appends to a list that `start` made, and its step leaves it as it is."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        values = x @ self.w
        return (x @ values.mT).masked_fill(later, float("-inf")).softmax(-1) @ values

    def start(self, batch_size: int, seq_len: int) -> list[Tensor]:
        return []

    def prefill(self, x: Tensor, state: list[Tensor]) -> list[Tensor]:
        state.append(x @ self.w)
        return state

    def step(self, x_t: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        tokens = [*state, (x_t @ self.w)[:, None]]
        seen = torch.cat(tokens, 1)
        return ((x_t[:, None] @ seen.mT).softmax(-1) @ seen)[:, 0], tokens


class Checkpointed(Product):
    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(lambda y: (y @ self.w).tanh() @ self.w, x, use_reentrant=False)


class Normalised(Product):
    """Of the bias, a backward pass needs the shape."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class PutsEachToken(Product):
    """Each token is at places of its own."""

    def forward(self, x: Tensor) -> Tensor:
        places, y = torch.arange(x.shape[-1]), x.new_zeros(x.shape[1], x.shape[2])
        for token in range(x.shape[1]):
            y.put_(places + token * x.shape[-1], x[0, token] * 2)
        return y[None]


class ReducesAnew(Product):
    """What was there before takes no part in the maximum."""

    def forward(self, x: Tensor) -> Tensor:
        y, rows = torch.zeros_like(x), torch.arange(x.shape[1])[None, :, None].expand_as(x)
        for _ in range(5):
            y.scatter_reduce_(1, rows, x, "amax", include_self=False)
        return y


class RenewsItsWorkspace(Product):
    """Frees the workspace of the last call before it makes another."""

    workspace: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.workspace = None
        self.workspace = torch.zeros(100 * x.numel())
        return x + self.workspace[0]


class RenewsABuffer(Product):
    """Puts another tensor in the place of a buffer, as a running mean does, and frees the one of the last call."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("mean", torch.zeros(100, d_model))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean * 0.5
        return x + torch.ones_like(self.mean).sum(0)


class MakesABufferAnew(RenewsABuffer):
    def forward(self, x: Tensor) -> Tensor:
        self.mean = None
        self.mean = torch.ones(100, x.shape[-1])
        return x + self.mean[0]


class KeepsWhatItSaves(Product):
    """Keeps an activation to look at, which the graph saves too."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(x)
        self.last = y.detach()
        return y + 1


class CollectsWhatItSaves(Product):
    """Keeps losses with their graphs, and so what these save."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.losses: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(super().forward(x))
        self.losses.append((y**3).mean())
        return y * 2


class KeepsTheLastTwenty(Product):
    """Frees what it has made twenty calls before."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.last = deque([torch.zeros(100, d_model) for _ in range(20)], maxlen=20)

    def forward(self, x: Tensor) -> Tensor:
        self.last.append(torch.ones(100, x.shape[-1]))
        return super().forward(x)


class KeepsTheLastFour(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.last: deque[Tensor] = deque(maxlen=4)

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.last.append(y.detach())
        return y


class ByNumpy(Product):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor((x.detach().numpy() @ self.w.detach().numpy()).tolist())


class ByList(Product):
    """Its product is one of Python's numbers."""

    def forward(self, x: Tensor) -> Tensor:
        columns = self.w.t().tolist()
        rows = [[sum(map(mul, row, column)) for column in columns] for row in x[0].tolist()]
        return torch.tensor(rows)[None]


class ByNumbers(ByList):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([torch.tensor([float(one) * 2.0 for one in row]) for row in x[0]])[None]


class ScaledByItem(Product):
    """Its scale is as deep as its product, and leaves torch."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y / y.abs().max().item()


class OrderedByList(Product):
    """Computes whole numbers, and takes them in again."""

    def forward(self, x: Tensor) -> Tensor:
        order = super().forward(x)[0, :, 0].argsort().tolist()
        return x[:, torch.tensor(sorted(order, reverse=True))]


class ByDlpack(Product):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor(np.from_dlpack(x.detach()) * 2)


class TimesABuffer(Product):
    """As many numbers as its result has, in memory of Python."""

    def numbers(self, y: Tensor) -> Tensor:
        return torch.frombuffer(bytearray(y.nbytes), dtype=y.dtype)

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y * self.numbers(y).view_as(y)


class TimesAnArrayOfPython(TimesABuffer):
    def numbers(self, y: Tensor) -> Tensor:
        return torch.asarray(array("f", [1.0] * y.numel()))


class TimesWhatDlpackGives(TimesABuffer):
    def numbers(self, y: Tensor) -> Tensor:
        return torch.from_dlpack(np.ones(y.shape, np.float32))


class TimesAList(TimesABuffer):
    """Torch copies it to memory of its own."""

    def numbers(self, y: Tensor) -> Tensor:
        return torch.as_tensor([1.0] * y.numel())


class IsABuffer(TimesABuffer):
    def forward(self, x: Tensor) -> Tensor:
        return self.numbers(x).view_as(x)


class OuterByNumpy(Product):
    """Makes a table of all pairs of tokens by numpy, and one number of it."""

    def forward(self, x: Tensor) -> Tensor:
        first = x[0, :, 0].detach().numpy()
        return super().forward(x) if np.abs(np.subtract.outer(first, first)).max() >= 0 else x


class OuterByDlpack(Product):
    def forward(self, x: Tensor) -> Tensor:
        first = np.from_dlpack(x[0, :, 0].detach())
        return super().forward(x) if np.abs(np.subtract.outer(first, first)).max() >= 0 else x


class OuterByArray(Product):
    def forward(self, x: Tensor) -> Tensor:
        first = np.asarray(x[0, :, 0].detach())
        return super().forward(x) if np.abs(np.subtract.outer(first, first)).max() >= 0 else x


class ReadsItsLengths(Product):
    """Reads numbers for lengths and for control flow alone, and has a constant of its own."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.alpha = nn.Parameter(torch.ones(()))
        self.register_buffer("lengths", torch.tensor([7, 9]))

    def forward(self, x: Tensor) -> Tensor:
        first, _ = self.lengths.tolist()
        ends = torch.tensor([first, x.shape[1]])
        if bool((x.abs() > 1e9).any()) or int(ends.max()) > x.shape[1]:
            return x
        return (x @ self.w) * self.alpha.item()


class ReadsWholeNumbers(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("lengths", torch.tensor([7, 9]))

    def forward(self, x: Tensor) -> Tensor:
        self.lengths.tolist()
        return super().forward(x)


class FillsWithTrue(Product):
    """Each token's row of a mask is filled by an index of its own: no token waits for another."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        seen = torch.zeros(n, dtype=torch.bool)
        for t in range(n):
            seen.index_fill_(0, (x[0, t, :1] > 1e9).long() + t, True)
        return x * seen[:, None]


class ShapedAfter(Product):
    """Random numbers of the shape of others, four times: no draw waits for another."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for _ in range(4):
            y = torch.bernoulli(y, 0.5)
        return y + super().forward(x)


class WithoutBeta(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("unused", torch.zeros(1, 16, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.unused, x, self.w[None], beta=0)


class Marked(Product):
    def forward(self, x: Tensor) -> Tensor:
        with torch.profiler.record_function("the product"):
            return super().forward(x)


class MoreAtEverySecondCall(Product):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        if self.calls % 2 == 0:
            y.mean()
        return y


class MoreAtEveryFourthCall(Product):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y.tanh() if self.calls % 4 == 0 else y


class OtherChunks(Product):
    """The same operators each time, on other shapes."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        first = x.shape[1] // (2 + self.calls % 2)
        return torch.cat([x[:, :first] @ self.w, x[:, first:] @ self.w], 1)


class DropsLayers(Product):
    """LayerDrop: each of eight products runs with a probability of 1/2."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(8):
            x = super().forward(x) if torch.rand(()) < 0.5 else x
        return x.clone()


class DropsElements(Product):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


class ProductsOfPrefixes(Product):
    """Autograd has another formula for its backward pass while somebody observes it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).cumprod(1)


class OtherOrder(Product):
    """Autograd sums up the gradients of the rows in place, and only under observation out of place."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("order", torch.arange(15, -1, -1))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, self.order])


class LeaksOnce(Product):
    """The tenth token sees the eleventh."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return torch.cat([y[:, :9], y[:, 9:10] + x[:, 10:11], y[:, 10:]], 1)


class PlainList(nn.Module):
    """Its two layers are in a plain list within a dictionary, where torch does not register them."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.parts = {"layers": [nn.Linear(d_model, d_model, bias=False) for _ in range(2)]}

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.parts["layers"]
        return second(first(x))
