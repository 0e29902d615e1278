"""Layers whose output shares memory with their input, and layers that change their input."""

import pytest
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.timing.timed_trial import measure_time
from harness.core.trial.verify import verify


class Steps(nn.Module):
    """Each token comes out as it goes in, in the same memory; in decoding twice as large, which changes the token."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)

    def start(self, batch_size: int, seq_len: int) -> None:
        return None

    def step(self, x_t: Tensor, state: None) -> tuple[Tensor, None]:
        return x_t.mul_(2), state


class Causal(Steps):
    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize(
    "impl",
    [
        "torch.nn:Identity",
        "core.faults.layers:ReturnsAViewOfItsInput",
        "core.faults.layers:ExpandsItsInput",
        "planted:Drops",
    ],
)
def test_a_layer_that_returns_its_input_or_a_view_of_it_is_right(runner: Executor, impl: str, mode: str) -> None:
    for purpose in ("verify", "facts", "time"):
        outcome = runner.run(purpose, Case(impl, 16, 8, 1, batch_size=2, mode=mode))
        assert outcome.status == "ok", outcome.reason


def test_a_layer_that_changes_its_input_is_right_and_each_of_its_samples_is_one_call(runner: Executor) -> None:
    case = Case("core.faults.layers:ChangesItsInput", 16, 8, 1)
    for purpose in ("verify", "facts", "time"):
        outcome = runner.run(purpose, case)
        assert outcome.status == "ok", outcome.reason
    assert outcome.values["calls_per_sample"] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layer", [Steps, Causal])
@pytest.mark.parametrize(("mode", "mask"), [("forward", "none"), ("forward", "causal"), ("forward", "padding")])
def test_masks_are_checked_on_copies(
    layer: type, mode: str, mask: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = 0.5 if mask == "padding" else 0.0
    assert verified(layer, monkeypatch, mode=mode, mask=mask, dtype=dtype, padding_fraction=share)["output_error"] == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_may_change_its_token(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verified(Steps, monkeypatch, mode="decode", mask="causal", dtype=dtype)
    assert found["output_error"] == 0
    measure_time(Case("own:Layer", 6, 4, 1, batch_size=2, mode="decode", mask="causal"), 0, 0.002)


def verified(layer: type, monkeypatch: pytest.MonkeyPatch, **asked: object) -> dict:
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_class", lambda name: layer)
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_reference", lambda name: None)
    monkeypatch.setattr("harness.core.layers.layer_lookup.reference_options", lambda name: {})
    return verify(Case("own:Layer", 6, 4, 1, batch_size=2, **asked), seed=0)  # type: ignore[arg-type]
