"""Layers of what is easily overlooked: an operation that reads, writes or does more than its name tells.

Each has a batch of one, and its right values in `test_overlooked`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    """Whatever is called with `(b, n, d)` and returns that. Its formula is its own."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()


class ScatterLoop(Layer):
    """`y ← y` with token t put in place of its own: each step hands on the elements that it does not choose."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.sin()
        for token in range(x.shape[1]):
            index = torch.full((x.shape[0], 1, x.shape[2]), token)
            y = y.scatter_reduce(1, index, x[:, token : token + 1], "amax", include_self=False)
        return y


class ComplexNumbers(Layer):
    """Each step reads a complex number of the one before into Python."""

    def forward(self, x: Tensor) -> Tensor:
        z, state = torch.view_as_complex(x.view(*x.shape[:2], -1, 2)), 0.5 + 0j
        for token in range(x.shape[1]):
            state = complex((z[0, token] * 0.1 + state).mean())
        return x + 1e-9 * state.real


class WholeNumbers(Layer):
    """Each step reads the bits of a number of the one before into Python."""

    def forward(self, x: Tensor) -> Tensor:
        bits, state = x.view(torch.int32), 1
        for token in range(x.shape[1]):
            state = int((bits[0, token] % 7 + state).sum()) % 7
        return x + 1e-9 * state


class Chosen(Layer):
    """As many steps as there are rows above −5, which are all of them."""

    def rows(self, chosen: Tensor) -> int:
        return len(chosen.unbind(0))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for _ in range(self.rows(x[0, x[0, :, 0].sin() > -5])):
            y = y.cos()
        return y


class ChosenBySplit(Chosen):
    """They are counted in another way."""

    def rows(self, chosen: Tensor) -> int:
        return len(chosen.split(1))


class ChosenZeros(Chosen):
    """They are counted in memory of the same size."""

    def rows(self, chosen: Tensor) -> int:
        return len(torch.zeros_like(chosen))


class ChosenNumbers(Chosen):
    """Their numbers are counted by a function."""

    def rows(self, chosen: Tensor) -> int:
        return torch.numel(chosen) // chosen.shape[-1]


class ChosenBytes(Chosen):
    """Their bytes are counted."""

    def rows(self, chosen: Tensor) -> int:
        return chosen.nbytes // 64


class ChosenLength(Chosen):
    """They are counted as the length of a packed sequence."""

    def forward(self, x: Tensor) -> Tensor:
        length = (x[0, :, 0].sin() > -5).sum()[None]
        y = x
        for _ in pack_padded_sequence(x, length, batch_first=True).batch_sizes.tolist():
            y = y.cos()
        return y


class ChosenByStride(Chosen):
    """They are counted in a third way."""

    def rows(self, chosen: Tensor) -> int:
        return chosen.mT.contiguous().stride(0)


class ChosenInBatches(Layer):
    """The same rows, along the second dimension."""

    def parts(self, chosen: Tensor) -> tuple[Tensor, ...]:
        return chosen.unbind(1)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for _ in self.parts(x[:, x[0, :, 0].sin() > -5]):
            y = y.cos()
        return y


class ChosenInBatchesBySplit(ChosenInBatches):
    def parts(self, chosen: Tensor) -> tuple[Tensor, ...]:
        return chosen.split(1, dim=-2)


class HeadsOfChosen(Layer):
    """Queries, keys and values of chosen tokens: three parts, whatever is chosen."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.weight = nn.Parameter(torch.randn(3 * d_model, d_model))

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.where(x[0, :, 0] > -5)[0]
        q, k, v = F.linear(x[0][rows], self.weight).unflatten(-1, (3, -1)).unbind(1)
        return torch.zeros_like(x[0]).index_add(0, rows, (q @ k.mT) @ v)[None]


class SplitExperts(Layer):
    """What a gate chooses is cut along d, whose size does not depend on the choice."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = x[0]
        rows = torch.where(tokens[:, 0] > -5)[0]
        first, second = tokens[rows].sin().chunk(2, -1)
        return torch.zeros_like(tokens).index_add(0, rows, (first * second).repeat(1, 2))[None]


class CountedIndices(Layer):
    """As many steps as there are numbers above −5, told by the rows of their indices."""

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for _ in (x.sin() > -5).nonzero().unbind(0):
            y = y.cos()
        return y


class FlexOfInference(Layer):
    """An operator of functions in inference mode."""

    @torch.inference_mode()
    def forward(self, x: Tensor) -> Tensor:
        heads = x[:, None]
        return flex_attention(heads, heads, heads)[:, 0]


class NestedOfInference(Layer):
    """A product of a nested tensor in inference mode."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.weight = nn.Parameter(torch.randn(d_model, d_model))

    @torch.inference_mode()
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.nested.as_nested_tensor(list(x)), self.weight).to_padded_tensor(0.0)


class OwnIndex(Layer):
    """Each element of a table of whole numbers chooses another: all of them are read."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = (x > 1e9).long()
        return x + chosen.gather(1, chosen)


class OtherIndex(Layer):
    """The same with a view of the table as its index."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = (x > 1e9).long()
        return x + chosen.gather(1, chosen[:])


class BatchNorm(Layer):
    """In training, it renews its mean and variance, and counts the batches."""

    keeps = True

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.norm = nn.BatchNorm1d(d_model, track_running_stats=self.keeps)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class ForgetfulNorm(BatchNorm):
    """It keeps neither."""

    keeps = False


class StatisticsLoop(Layer):
    """Each step reads the mean that the one before has renewed."""

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = x.new_zeros(x.shape[2]), x.new_ones(x.shape[2])
        outputs = []
        for token in range(x.shape[1]):
            given = x[0, token : token + 1].expand(2, -1) + mean
            F.batch_norm(given, mean, variance, training=True, momentum=0.5)
            outputs.append(x[:, token] + mean)
        return torch.stack(outputs, 1)


class Differences(Layer):
    """`torch.diff` of order 8: eight differences, one after the other."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.diff(x * 0.5, n=8, dim=1).sum(1, keepdim=True).expand_as(x) + x


class DifferencesOfInference(Differences):
    """In inference mode, torch hands `diff` on as one operation."""

    forward = torch.inference_mode()(Differences.forward)


class VectorOfInference(Layer):
    """A product with a vector."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.weight = nn.Parameter(torch.randn(d_model))

    @torch.inference_mode()
    def forward(self, x: Tensor) -> Tensor:
        return x + F.linear(x, self.weight)[..., None]


class Prepared(Layer):
    """What it prepares before the call is a view of its weight."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.weight = nn.Parameter(torch.randn(d_model, d_model))

    def prepare(self, x: Tensor) -> dict[str, Tensor]:
        return {"transposed": self.weight.mT}

    def forward(self, x: Tensor, transposed: Tensor) -> Tensor:
        return x @ transposed


class Tabled(Layer):
    """A base class holds a table of 1,000 numbers."""

    table = torch.ones(1000)


class OfTabled(Tabled):
    """The table is that of its base class."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[0]


class WithinTabled(Layer):
    """The table is that of the class of a part."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.inner = OfTabled(d_model, num_heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class WeightedBag(Layer):
    """`x @ weight` as a sum of the weight's rows, each of them times a number of `x`."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.weight = nn.Parameter(torch.randn(d_model, d_model))

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        rows, numbers = torch.arange(d).repeat(b * n, 1), x.reshape(b * n, d)
        return F.embedding_bag(rows, self.weight, per_sample_weights=numbers, mode="sum").view(b, n, d)


class PlainBag(Layer):
    """A sum of rows without weights: no product."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.weight = nn.Parameter(torch.randn(d_model, d_model))

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.arange(x.shape[2]).repeat(x.shape[1], 1)
        return x + F.embedding_bag(rows, self.weight, mode="sum")


class FastWeights(Layer):
    """Its state is a matrix, which each step makes anew."""

    def start(self, batch_size: int, length: int) -> Tensor:
        return torch.zeros(batch_size, 16, 16)

    def step(self, x_t: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = 0.5 * state + x_t[:, :, None] * x_t[:, None]
        return (x_t[:, None] @ state)[:, 0], state

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = self.start(len(x), x.shape[1]), []
        for x_t in x.unbind(1):
            y_t, state = self.step(x_t, state)
            outputs.append(y_t)
        return torch.stack(outputs, 1)


class GradientFirst(Layer):
    """A gradient within the forward pass, before a linear layer to whose product torch adds the bias in place."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.weight = nn.Parameter(torch.randn(d_model, d_model) / 4)
        self.linear = nn.Linear(d_model, d_model)

    def gradient(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            weight = self.weight.detach().clone().requires_grad_()
            return torch.autograd.grad((x.detach() @ weight).sin().mean(), weight)[0]

    def sum_in_place(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear((self.weight.mT @ x.mT).mT)
        return y

    def forward(self, x: Tensor) -> Tensor:
        gradient = self.gradient(x)
        return self.sum_in_place(x) * gradient.sum()


class GradientLast(GradientFirst):
    """The same with the gradient after the linear layer."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.sum_in_place(x)
        return y * self.gradient(x).sum()


class Recomputed(GradientFirst):
    """The linear layer is computed again in the backward pass."""

    def sine(self, x: Tensor) -> Tensor:
        return self.sum_in_place(x).sin()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = checkpoint(self.sine, x, use_reentrant=False, preserve_rng_state=False)
        return y


class Norm(Layer):
    """A norm of torch's own, which sums in place."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.norm = nn.RMSNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x)
        return y


class NormFirst(Norm):
    """A sum of the layer's own after the norm and a gradient."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        with torch.enable_grad():
            leaf = x.detach().clone().requires_grad_()
            gradient = torch.autograd.grad(leaf.sin().sum(), leaf)[0]
        return y + gradient


class my_autograd_copy(torch.autograd.Function):  # a name such as torch's own marks have
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


class NamedCopy(GradientFirst):
    """A function by the name of `autograd` before the linear layer."""

    def forward(self, x: Tensor) -> Tensor:
        copy: Tensor = my_autograd_copy.apply(x)
        return self.sum_in_place(copy)


class FunctionalGradient(GradientFirst):
    """The first call of this transform makes torch import more of itself."""

    def forward(self, x: Tensor) -> Tensor:
        gradient: Tensor = torch.func.grad(lambda leaf: (leaf @ self.weight).sin().sum())(x)
        return gradient


class TableOfKeywords(Layer):
    """A table that is the default of a keyword, and one that a function has as an attribute."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)

        def scaled(x: Tensor) -> Tensor:
            table: Tensor = self.scale.table  # type: ignore[attr-defined]
            return x * table

        scaled.table = torch.randn(16)  # type: ignore[attr-defined]
        self.scale = scaled

    def forward(self, x: Tensor, *, table: Tensor = torch.randn(100)) -> Tensor:  # noqa: B008
        return self.scale(x) + table.sum()


class Embedded(Layer):
    """A few rows of a long table."""

    most: float | None = None

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.table = nn.Embedding(4096, d_model, max_norm=self.most)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.table(torch.arange(x.shape[1]))
        return y


class Renormed(Embedded):
    """The rows that are used are made shorter in place if they are longer than this, which none is."""

    most = 1000.0


class Evicting(Layer):
    """Few rows of a state are filled in place, where a mask says so."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.register_buffer("state", torch.zeros(4096, d_model))
        self.register_buffer("is_old", torch.arange(4096)[:, None] < 16)

    def forward(self, x: Tensor) -> Tensor:
        self.state.masked_fill_(self.is_old, 1.0)
        return x * 2


class EvictingAll(Evicting):
    """The same by a triangle."""

    def forward(self, x: Tensor) -> Tensor:
        self.state.tril_(4096)
        return x * 2
