"""Weights keep their kind: complex numbers stay complex, and a state may hold more than tensors."""

import io
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.workload import build


class DiagonalStateSpace(nn.Module):
    """y_t is the real part of Σ_s λ^(t−s) x_s in each channel, with λ of magnitude 0.9 and an angle."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        angles = torch.linspace(0.3, 2.8, d_model)
        self.rate = nn.Parameter(torch.polar(torch.full_like(angles, 0.9), angles))

    def forward(self, x: Tensor) -> Tensor:
        states = [torch.zeros_like(self.rate * x[:, 0])]
        for x_t in x.unbind(1):
            states.append(self.rate * states[-1] + x_t)
        return torch.stack([state.real for state in states[1:]], dim=1)


class KeepsANumber(nn.Module):
    """Torch's own hook puts a dictionary into its state."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)
        self.scale = 1.0

    def get_extra_state(self) -> dict:
        return {"scale": self.scale}

    def set_extra_state(self, state: dict) -> None:
        self.scale = state["scale"]

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) * self.scale


class Packed(nn.Module):
    """Weights in int8, packed in the constructor."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        plain = nn.Sequential(nn.LSTM(d_model, d_model, batch_first=True)).eval()
        self.rnn = torch.ao.quantization.quantize_dynamic(plain, {nn.LSTM}, dtype=torch.qint8)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class PackedLinear(nn.Module):
    """Two products with weights in int8, and unused weights in float32 beside them."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.plain = nn.Sequential(nn.Linear(d_model, d_model), nn.Tanh(), nn.Linear(d_model, d_model)).eval()
        self.packed = torch.ao.quantization.quantize_dynamic(self.plain, {nn.Linear}, dtype=torch.qint8)

    def forward(self, x: Tensor) -> Tensor:
        return self.packed(x)


class PackedBesideModules(PackedLinear):
    """The packed module is no part of its state."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.kept = [self.packed]
        del self.packed

    def forward(self, x: Tensor) -> Tensor:
        return self.kept[0](self.kept[0](x))


class EightBits(nn.Module):
    """A buffer of 8-bit floats, and one of whole numbers."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)
        self.register_buffer("scale", torch.ones(d_model).to(torch.float8_e4m3fn))
        self.register_buffer("order", torch.arange(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x)[..., self.order] * self.scale.to(x.dtype)


class Lazy(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.LazyLinear(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x)


class SparseBuffer(nn.Module):
    """A permutation of channels."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("mix", self.permutation(d_model).to_sparse())

    @staticmethod
    def permutation(d_model: int) -> Tensor:
        return torch.eye(d_model).roll(1, 0)

    def forward(self, x: Tensor) -> Tensor:
        return (self.mix.to(x.dtype) @ x.flatten(0, 1).t()).t().view_as(x)


class CompressedParameter(SparseBuffer):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        del self.mix
        self.mix = nn.Parameter(self.permutation(d_model).to_sparse_csr())


class SparseAttribute(SparseBuffer):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        del self.mix
        self.mix = self.permutation(d_model).to_sparse()


class KeptSparse(SparseBuffer):
    """The first call makes the sparse matrix."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        del self.mix
        self.dense, self.mix = nn.Parameter(self.permutation(d_model)), None

    def forward(self, x: Tensor) -> Tensor:
        if self.mix is None:
            self.mix = self.dense.detach().to_sparse()
        return super().forward(x)


class Product(nn.Module):
    """A product of a weight with 8·8 numbers of 4 bytes."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x)


class _Listed(Product):
    """A list of two tensors, of 3 and 5 numbers."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.tables = [torch.ones(3), torch.ones(5)]

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) * self.tables[0][0] * self.tables[1][0]


class Scripted(Product):
    made = staticmethod(lambda d_model: torch.jit.script(_Listed(d_model).eval()))

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.proj = self.made(d_model)


class Loaded(Scripted):
    """A script of which Python has never seen the module."""

    @staticmethod
    def made(d_model: int) -> nn.Module:
        written = io.BytesIO()
        torch.jit.save(torch.jit.script(_Listed(d_model)), written)
        written.seek(0)
        return torch.jit.load(written)


class ScriptInAList(Scripted):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.others = [self.proj]
        del self.proj

    def forward(self, x: Tensor) -> Tensor:
        return self.others[0](x)


class Frozen(Scripted):
    made = staticmethod(lambda d_model: torch.jit.freeze(torch.jit.script(Product(d_model).eval())))


class FrozenOfTwo(Scripted):
    """Its inner modules are constants, too."""

    made = staticmethod(
        lambda d_model: torch.jit.freeze(
            torch.jit.script(nn.Sequential(Product(d_model), nn.Tanh(), Product(d_model)).eval())
        )
    )


class Optimized(Scripted):
    """Torch keeps a transposed weight beside the plain one."""

    made = staticmethod(lambda d_model: torch.jit.optimize_for_inference(torch.jit.script(Product(d_model).eval())))


class Traced(Scripted):
    """The table is a constant of the trace."""

    @staticmethod
    def made(d_model: int) -> nn.Module:
        table = torch.ones(d_model)
        product = Product(d_model)
        product.forward = lambda x: F.linear(x, product.proj.weight) * table
        return torch.jit.trace(product, torch.randn(1, 24, d_model))


class TracedFunction(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        table = torch.ones(d_model)
        self.times = torch.jit.trace(lambda x: x * table, torch.randn(1, 24, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.times(self.proj(x))


class InAGenerator(Product):
    """What yields its table anew."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.tables = self.yielded(torch.ones(d_model))

    @staticmethod
    def yielded(table: Tensor) -> Iterator[Tensor]:
        while True:
            yield table

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) * next(self.tables)


class _Tables:
    table = torch.ones(8)


class _OfTables(_Tables):
    pass


class OfAClass(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.tables = _OfTables

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) * self.tables.table


class OfAnObjectsClass(OfAClass):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.tables = _OfTables()


class ScaleOnAWeight(Product):
    """A whole-number weight with its scale as an attribute, as quantizers keep it."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.proj.weight.scale = torch.ones(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.proj.weight) * self.proj.weight.scale


class MaskAroundAHook(Product):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        mask = torch.ones(d_model)
        self.proj.weight.register_hook(lambda gradient: gradient * mask)


class MomentumAroundAHook(Product):
    """An optimizer within the backward pass."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        momentum = torch.zeros(d_model, d_model)
        self.proj.weight.register_post_accumulate_grad_hook(lambda weight: momentum.add_(weight.grad))


class _Scaled(Tensor):
    """Eight-bit numbers and a scale for each row, which compute as one tensor."""

    @staticmethod
    def __new__(cls, numbers: Tensor, scale: Tensor) -> "_Scaled":
        scaled = Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=scale.dtype)
        scaled.numbers, scaled.scale = numbers, scale
        return scaled

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def plain(value: object) -> object:
            return value.numbers * value.scale if isinstance(value, _Scaled) else value

        if function is torch.ops.aten.detach.default:
            return _Scaled(args[0].numbers, args[0].scale)
        return function(*map(plain, args), **{name: plain(value) for name, value in (kwargs or {}).items()})


class OfTwoTensors(nn.Module):
    """A weight of 64 numbers of a byte, and of 8 of four bytes."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        numbers = torch.ones(d_model, d_model, dtype=torch.int8)
        self.weight = nn.Parameter(_Scaled(numbers, torch.ones(d_model, 1)), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


def own(layer: type, **axes: object) -> Case:
    return Case(f"{Path(__file__)}:{layer.__name__}", 24, 8, 1, batch_size=2, **axes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_complex_weights_stay_complex(dtype: str) -> None:
    work = build(own(DiagonalStateSpace, dtype=dtype), seed=0)
    rate = work.layer.rate
    assert rate.dtype == {"float32": torch.complex64, "float64": torch.complex128}[dtype]
    # In the first channel, λ = 0.9·exp(0.3i), and the second output is Re(λ)·x₀ + x₁.
    x = work.x[0, :2, 0].tolist()
    assert work.call()[0, 1, 0].item() == pytest.approx(0.9 * math.cos(0.3) * x[0] + x[1], rel=1e-5)


@pytest.mark.parametrize("purpose", ["verify", "facts", "time"])
@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
def test_complex_weights_are_measured(runner: Executor, mode: str, purpose: str) -> None:
    outcome = runner.run(purpose, own(DiagonalStateSpace, mode=mode))
    assert (outcome.status, outcome.reason) == ("ok", None)
    if purpose != "time":
        assert 0 < outcome.values["output_error"] < 1e-6
    if purpose == "facts":
        assert outcome.values["weights_bytes"] == 8 * 8


def test_half_precision_has_no_complex_weights(runner: Executor) -> None:
    outcome = runner.run("verify", own(DiagonalStateSpace, dtype="bfloat16"))
    assert outcome.status == "unsupported"
    assert outcome.reason == "'rate' is complex, and torch has no complex bfloat16: give dtype=float32"


def test_quantized_buffers_and_whole_numbers_keep_their_dtype(runner: Executor) -> None:
    layer = build(own(EightBits), seed=0).layer
    assert (layer.scale.dtype, layer.order.dtype) == (torch.float8_e4m3fn, torch.int64)
    assert runner.run("verify", own(EightBits)).status == "ok"


@pytest.mark.parametrize("layer", [KeepsANumber, Packed, PackedLinear])
@pytest.mark.parametrize("purpose", ["verify", "facts", "time"])
def test_a_state_may_hold_more_than_tensors(runner: Executor, layer: type, purpose: str) -> None:
    outcome = runner.run(purpose, own(layer))
    assert (outcome.status, outcome.reason) == ("ok", None)


# For d = 8: a byte each for the 4·8 rows of W_x and of W_h, and 4 for both biases.
OF_LSTM = 2 * 32 * 8 + 2 * 4 * 32
OF_LINEAR = 2 * (8 * 8 + 4 * 8)
UNUSED = 2 * 4 * (8 * 8 + 8)


@pytest.mark.parametrize(
    ("layer", "weights"),
    [(Packed, OF_LSTM), (PackedLinear, OF_LINEAR + UNUSED), (PackedBesideModules, OF_LINEAR + UNUSED)],
)
def test_packed_weights_count_and_each_once(runner: Executor, layer: type, weights: int) -> None:
    facts = runner.run("facts", own(layer)).values
    assert facts["weights_bytes"] == weights
    packed = OF_LSTM if layer is Packed else OF_LINEAR
    assert facts["read_bytes"] == 4 * 2 * 24 * 8 + packed


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize_per_tensor:UserWarning")
def test_packed_weights_that_cannot_be_opened_are_unknown(runner: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: torch.ScriptObject) -> None:
        raise RuntimeError("no state")

    monkeypatch.setattr(torch.ScriptObject, "__getstate__", refuse, raising=False)
    facts = collect_metrics(own(Packed), seed=0)
    assert facts["weights_bytes"] is None
    assert (
        "weights_bytes: an operator keeps weights in an object that does not tell its state" in facts["facts_unknown"]
    )


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
def test_a_lazy_module_is_unsupported(runner: Executor, mode: str) -> None:
    outcome = runner.run("verify", own(Lazy, mode=mode))
    assert outcome.status == "unsupported"
    assert (
        outcome.reason
        == "'proj.weight' has no shape before the first call: use a module that takes its sizes, as nn.Linear"
    )


@pytest.mark.parametrize("purpose", ["verify", "facts", "time"])
@pytest.mark.parametrize(("layer", "layout"), [(SparseBuffer, "sparse_coo"), (CompressedParameter, "sparse_csr")])
def test_sparse_weights_are_unsupported(runner: Executor, layer: type, layout: str, purpose: str) -> None:
    outcome = runner.run(purpose, own(layer))
    assert outcome.status == "unsupported"
    assert outcome.reason == f"'mix' is torch.{layout}, and only dense weights can be copied: use .to_dense()"


@pytest.mark.parametrize(("layer", "at_first"), [(SparseAttribute, 0), (KeptSparse, 8 * (4 + 2 * 8))])
@pytest.mark.parametrize("mode", ["forward", "train"])
def test_sparse_tensors_that_are_no_weights_leave_the_observed_facts_unknown(
    runner: Executor, layer: type, at_first: int, mode: str
) -> None:
    for purpose in ("verify", "time"):
        outcome = runner.run(purpose, own(layer, mode=mode))
        assert (outcome.status, outcome.reason) == ("ok", None)
    facts = runner.run("facts", own(layer, mode=mode)).values
    # Eight values, each with two indices of 8 bytes.
    assert facts["first_call_bytes"] == at_first
    assert facts["flops"] is facts["min_bytes"] is None
    assert all("a tensor is sparse" in reason for reason in facts["facts_unknown"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    ("layer", "numbers"),
    [
        (Product, 64),
        (Scripted, 64 + 8),
        (Loaded, 64 + 8),
        (ScriptInAList, 64 + 8),
        (Frozen, 64),
        (FrozenOfTwo, 128),
        (Optimized, 128),
        (Traced, 64 + 8),
        (TracedFunction, 64 + 8),
        (InAGenerator, 64 + 8),
        (OfAClass, 64 + 8),
        (OfAnObjectsClass, 64 + 8),
        (ScaleOnAWeight, 64 + 8),
        (MaskAroundAHook, 64 + 8),
        (MomentumAroundAHook, 64 + 64),
        (OfTwoTensors, 64 // 4 + 8),
    ],
)
def test_weights_count_wherever_the_layer_keeps_them(layer: type, numbers: int) -> None:
    assert collect_metrics(own(layer), seed=0)["weights_bytes"] == 4 * numbers
