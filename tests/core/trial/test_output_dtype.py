"""An output has the dtype of its input, or the dtype that the layer declares."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.layer_protocol import output_dtype
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.timing.timed_trial import measure_time
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.rnn.gated import Elman


class Returns(nn.Module):
    dtype: torch.dtype

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight).to(self.dtype)


class DecodesInFloat64(Elman):
    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        y, h = super().step(x_t, h)
        return y.double(), h


class DecodesInFloat32(Elman):
    """In half precision it returns float32, and declares it."""

    output_dtype = "float32"

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        y, h = super().step(x_t, h)
        return y.float(), h


def case_of(layer: type, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> Case:
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_class", lambda name: layer)
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_reference", lambda name: None)
    monkeypatch.setattr("harness.core.layers.layer_lookup.reference_options", lambda name: {})
    return Case("own:Layer", 6, 4, 1, batch_size=2, **asked)


def returns(dtype: torch.dtype, **declared: str) -> type:
    return type("Layer", (Returns,), {"dtype": dtype, **declared})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("check", [verify, collect_metrics])
def test_another_dtype_is_wrong(dtype: torch.dtype, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"it returned {str(dtype)[6:]} for an input of float32, where float32 is expected .*`output_dtype`"
    with pytest.raises(WrongResult, match=said):
        check(case_of(returns(dtype), monkeypatch), seed=0)


def test_a_step_that_returns_another_dtype_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="it returned float64 for an input of float32"):
        verify(case_of(DecodesInFloat64, monkeypatch, mode="decode", mask="causal"), seed=0)


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_a_declared_dtype_is_right(mode: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(returns(torch.float32, output_dtype="float32"), monkeypatch, mode=mode, dtype=dtype)
    verify(case, seed=0)
    collect_metrics(case, seed=0)
    measure_time(case, 0, 0.002)


def test_a_step_may_return_the_declared_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    verify(case_of(DecodesInFloat32, monkeypatch, mode="decode", mask="causal", dtype="bfloat16"), seed=0)


def test_the_declared_dtype_is_expected_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="it returned float32 for an input of float32, where float64 is expected"):
        verify(case_of(returns(torch.float32, output_dtype="float64"), monkeypatch), seed=0)


@pytest.mark.parametrize("declared", ["complex64", "half", torch.float32, None])
def test_only_the_dtypes_of_cases_can_be_declared(declared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = returns(torch.float32, output_dtype=declared)
    with pytest.raises(UsageError, match=r"output_dtype is .*: it must be one of float32, bfloat16, float16, float64"):
        build(case_of(layer, monkeypatch, mode="train"), seed=0)
    with pytest.raises(UsageError):
        output_dtype(layer, "float32")
