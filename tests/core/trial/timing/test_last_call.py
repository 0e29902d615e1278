"""Results that a layer keeps from earlier calls are found; honest layers are not accused."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from core.faults import layers
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.reuse_between_calls import (
    Renewal,
    check_call_times,
    check_last_call,
    check_operation_counts,
    take_last_call,
)
from harness.core.trial.timing import timed_trial
from harness.core.trial.timing.sampler import take_samples
from harness.core.trial.timing.timed_trial import measure_time, take_turns
from harness.core.trial.verify import verify
from harness.core.trial.workload import Workload, build

KEEPERS = ["KeepsByAddress", "KeepsByIdentity", "KeepsByFirstElement", "KeepsBySum", "KeepsByFirstRow"]


@pytest.fixture(autouse=True)
def _not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for counter in ["compilations", "functions_offered"]:  # other tests may have compiled here
        monkeypatch.setattr(f"harness.core.trial.reuse_between_calls.{counter}", lambda: 0)


def case_of(layer: str, n: int = 16, **asked: object) -> Case:
    return Case(f"core.faults.layers:{layer}", n, 8, 1, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("layer", KEEPERS)
def test_a_layer_that_keeps_results_by_a_cheap_key_is_wrong(runner: Executor, layer: str, mode: str) -> None:
    outcome = runner.run("verify", case_of(layer, mode=mode))
    assert outcome.status == "incorrect"
    assert "second input" in outcome.reason or "result of an earlier call" in outcome.reason


class KeepsInFloat32(layers.KeepsByFirstRow):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x @ torch.eye(x.shape[-1]))


def test_a_kept_result_of_a_layer_that_does_not_run_in_float64_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_class", lambda name: KeepsInFloat32)
    with pytest.raises(WrongResult, match="it returns the result of an earlier call"):
        verify(case_of("KeepsByFirstRow"), 0)


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("layer", KEEPERS)
def test_a_layer_that_keeps_results_by_a_cheap_key_gets_no_time(layer: str, mode: str) -> None:
    with pytest.raises(WrongResult, match="it returned the result of an earlier call"):
        checked(case_of(layer, mode=mode))


def checked(case: Case) -> None:
    """All checks of a timed trial whose samples are of several calls."""
    work = build(case, 0)
    renewal = Renewal(work.varying)
    work.call()
    renewal.look()
    assert not renewal.restores
    check_call_times(work, renewal)
    check_last_call(take_last_call(work, renewal, 0), case, 0)


def test_samples_of_a_kept_result_show_the_cost_of_the_formula() -> None:
    case = case_of("KeepsByFirstRow")
    work = build(case, 0)
    renewal, computed = Renewal(work.varying), work.layer.results
    renewal.look()
    renewed: list[None] = []
    samples = take_samples(work.call, work.sync, 0.002, renew=lambda: renewed.append(renewal()), singly=True)
    # The warm-up repeats one input. A first sample that is still slow counts as warm-up, after its renewal.
    assert len(computed) == 1 + len(renewed) >= 1 + len(samples.samples_s)


def test_each_sample_of_a_timed_trial_is_of_a_new_input(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Workload] = []
    monkeypatch.setattr(timed_trial, "build", lambda *given: built.append(build(*given)) or built[0])
    outcome = measure_time(case_of("KeepsByFirstRow"), 0, 0.002, check=False)
    assert len(built[0].layer.results) > len(outcome["samples_s"])


def test_skipped_work_that_torch_does_not_dispatch_is_found_by_its_time() -> None:
    reasons = []
    for _ in range(5):  # on a busy machine, times may not decide at once
        try:
            checked(case_of("SkipsWorkOutsideTorch"))
        except WrongResult as error:
            reasons.append(str(error))
            break
    assert reasons, "none of five checks has found it"
    assert re.search(r"a new input takes .* µs, the same input again", reasons[0])


class Sorts(torch.nn.Module):
    """The time of a sort depends on how well the processor predicts its branches: a repeated input is faster."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w = torch.nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return x.sort(1).values


class Ranks(Sorts):
    def forward(self, x: Tensor) -> Tensor:
        return x.gather(1, x.argsort(1, descending=True))


class MixesSorted(Sorts):
    def forward(self, x: Tensor) -> Tensor:
        return self.w(x.sort(1).values)


class SortsAndSkips(Sorts):
    """Skips a product in numpy for an input seen before. Torch dispatches the same operations."""

    seen = b""

    def forward(self, x: Tensor) -> Tensor:
        values = x.detach().numpy()
        if values.tobytes() != self.seen:
            self.seen = values.tobytes()
            for _ in range(100):
                values[0].T @ values[0]
        return x.sort(1).values


def timed(monkeypatch: pytest.MonkeyPatch, layer: type[Sorts], n: int, d_model: int) -> None:
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_class", lambda name: layer)
    work = build(Case("core.faults.layers:Good", n, d_model, 1), 0)
    check_call_times(work, renewal_of(work))


@pytest.mark.parametrize("layer", [Sorts, Ranks, MixesSorted])
@pytest.mark.parametrize(("n", "d_model"), [(32, 16), (32, 64), (64, 16), (64, 64)])
def test_an_operation_that_is_faster_for_values_seen_before_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, layer: type[Sorts], n: int, d_model: int
) -> None:
    timed(monkeypatch, layer, n, d_model)


def test_work_skipped_beside_such_an_operation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="a new input takes"):
        timed(monkeypatch, SortsAndSkips, 32, 16)


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_a_result_kept_only_at_the_size_that_is_timed_is_found(mode: str) -> None:
    with pytest.raises(WrongResult, match="its output does not follow its input"):
        measure_time(case_of("KeepsItsResultWhenLong", 300, mode=mode), 0, 0.002)


class Dispatches(TorchDispatchMode):
    """Counts the operations that torch dispatches, as a clock that no load disturbs."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("layer", "said"), [("KeepsItsResultWhenLong", "does not follow"), ("KeepsByFirstRow", "a new input takes")]
)
def test_turns_find_kept_results_too(layer: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Dispatches()
    monkeypatch.setattr("harness.core.trial.reuse_between_calls.perf_counter", lambda: 1e-6 * clock.count)
    monkeypatch.setattr("harness.core.trial.timing.sampler.MIN_SAMPLE_S", 0.05)  # several calls, under any load
    theirs, ours = os.pipe()
    os.write(ours, bytes([0, 0, 0, 1]))
    os.close(ours)
    with (tmp_path / "said").open("wb") as answer, clock, pytest.raises(WrongResult, match=said):
        take_turns(case_of(layer, 300), 0, 0.002, 0.002, theirs, answer.fileno())
    os.close(theirs)


def test_a_gradient_kept_from_an_earlier_call_is_found() -> None:
    case, work = case_of("Good", mode="backward"), build(case_of("Good", mode="backward"), 0)
    honest, kept = work.call, []

    def call() -> tuple[Tensor, ...]:
        if not kept:
            kept.append(honest())
        return kept[0]

    work.call = call
    work.call()
    last = take_last_call(work, renewal_of(work), 0)
    with pytest.raises(WrongResult, match="does not follow its input"):
        check_last_call(last, case, 0)


@pytest.mark.parametrize("changes_input", [False, True])
def test_a_layer_that_computes_again_only_after_a_pause_is_found(changes_input: bool) -> None:
    case, work = case_of("Good"), build(case_of("Good"), 0)
    renewal = Renewal(work.varying)
    if changes_input:
        work.varying[0].mul_(1.0)
    renewal.look()
    assert renewal.restores == changes_input
    honest, kept, ended = work.call, [], [-1000]
    with Dispatches() as clock:
        renewal()
        pause = clock.count + (4 if changes_input else 0)

        def call() -> Any:
            if clock.count - ended[0] > pause:
                kept[:] = [honest().clone()]
            if changes_input:
                work.varying[0].mul_(1.0)
            ended[0] = clock.count
            return kept[0]

        work.call = call
        last = take_last_call(work, renewal, 0)
    with pytest.raises(WrongResult, match="does not follow its input"):
        check_last_call(last, case, 0)


def renewal_of(work: Workload) -> Renewal:
    renewal = Renewal(work.varying)
    renewal.look()
    assert not renewal.restores
    return renewal


@pytest.mark.parametrize(
    "impl", ["attention.packed", "rnn.torch", "attention.linear.recurrent", "planted:Drops", "decoder.fused"]
)
@pytest.mark.parametrize("mode", ["forward", "train", "backward", "decode"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_honest_layer_is_not_accused(impl: str, mode: str, dtype: str) -> None:
    if impl == "planted:Drops" and mode == "decode":
        pytest.skip("it does not decode")
    heads = 1 if impl in ("rnn.torch", "planted:Drops") else 2
    case = Case(
        impl, 24, 16, heads, batch_size=2, mode=mode, dtype=dtype, mask="causal" if mode == "decode" else "none"
    )
    work = build(case, 0)
    renewal = renewal_of(work)
    check_operation_counts(work, 0)
    check_call_times(work, renewal)
    check_last_call(take_last_call(work, renewal, 0), case, 0)


def test_padding_may_come_out_as_anything() -> None:
    case = Case("core.trial.late:NoNumbersInPadding", 12, 8, 1, mask="padding", padding_fraction=0.5)
    measure_time(case, 0, 0.002)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_renewal_changes_every_value_but_neither_magnitudes_nor_zeros_nor_memory(dtype: torch.dtype) -> None:
    x = torch.randn(2, 12, 8).to(dtype)
    x[:, 6:] = 0
    before, address, version = x.clone(), x.data_ptr(), x._version
    renewal = Renewal([x])
    renewal.look()
    assert not renewal.restores
    first_elements, values = set(), set()
    for _ in range(200):
        renewal()
        first_elements.add(x[0, 0, 0].item())
        values.add(x.float().numpy().tobytes())
        assert torch.equal(x == 0, before == 0)
    assert len(values) == 200
    assert len(first_elements) > (190 if dtype == torch.float32 else 20)
    torch.testing.assert_close(x.abs(), before.abs(), rtol=0.2 if dtype == torch.float32 else 0.6, atol=0)
    assert x.data_ptr() == address
    assert x._version > version


def test_renewal_starts_from_the_first_values_where_the_layer_changes_them() -> None:
    x = torch.randn(1, 4, 8)
    renewal, first = Renewal([x]), x.clone()
    for _ in range(3):
        x.exp_()
    renewal.look()
    assert renewal.restores
    renewal()
    torch.testing.assert_close(x.abs(), first.abs(), rtol=0.2, atol=0)


def test_hostile_layers_are_right_the_first_time() -> None:
    for name in KEEPERS:
        x = torch.randn(1, 4, 8)
        assert torch.equal(getattr(layers, name)(8)(x), x)
