"""The A/A run through the real driver, with a runner that only pretends."""

from collections import Counter
from collections.abc import Collection
from contextlib import nullcontext

import pytest

from harness.core.config import Precision
from harness.core.layers.layer_files import Digests
from harness.core.layers.layer_lookup import Layer
from harness.core.model.case_grid import grid
from harness.core.model.sweep_axes import Case
from harness.core.run.fork_client import OF_DRIVER
from harness.core.run.outcome import TrialOutcome
from harness.core.trial.timing.cuda import LOAD_S
from harness.extras.calibrate.commands import _calibration_config
from harness.extras.calibrate.measure import REPEATS, Plan, Replicate, measure_replicates, replicates_of

CASES = [Case("rnn.torch", n, 16, 1, threads=2) for n in (64, 128)]
LAYERS = {"rnn.torch": Layer("rnn", False)}
PRECISION = Precision(target=0.05, min_rounds=2, max_rounds=2, trial_s=0.1, timeout_s=9, case_s=100, patience_s=1)


class Pretender:
    """Times by case and copy; a probe as told, and a failure where told."""

    runtime = OF_DRIVER

    def __init__(self, probe_s: float = 1.0, fails: Replicate | None = None) -> None:
        self.asked: list[Case] = []
        self.code: dict[str, Digests] = {}
        self.probe_s, self.fails = probe_s, fails

    def run(self, purpose: str, case: Case | None = None) -> TrialOutcome:
        if purpose == "probe":
            return TrialOutcome("ok", values={"probe_s": 1.0}, wall_s=0.1)
        assert purpose == "time"
        self.asked.append(case)
        if case == self.fails:
            return TrialOutcome("killed", "by SIGKILL", wall_s=0.1)
        seconds = case.seq_len * (1 + 0.1 * case.copy)
        probe_s = self.probe_s if len(self.asked) % 4 == 0 else 1.0
        values = {"samples_s": [seconds], "probe_s": probe_s, "clock_s": 4e-8}
        return TrialOutcome("ok", values=values, wall_s=0.1)

    def starting(self, phase: str, number: int) -> None: ...
    def trial(self, purpose: str, case: Case, outcome: TrialOutcome) -> None: ...
    def finished(self, case: Case, status: str) -> None: ...
    def added(self, cases: Collection[Case]) -> None: ...


def run(*runners: Pretender):
    waiting = list(runners)
    plan = Plan(
        CASES,
        LAYERS,
        PRECISION,
        "quick",
        executor_for=lambda trial_s: nullcontext(waiting.pop(0)),
        watcher_for=lambda cases: nullcontext(runners[0]),
        say=lambda text: None,
    )
    return measure_replicates(plan, copies=2, repeats=len(runners))


def test_a_twin_is_its_case_in_everything_that_a_trial_reads() -> None:
    twin = replicates_of(CASES, 2)[1]
    assert Case.from_dict(twin.as_dict()) == CASES[0]
    assert len(set(replicates_of(CASES, 3))) == 6


def test_every_copy_is_measured_as_a_sweep_would_and_side_by_side() -> None:
    twins = run(first := Pretender(), second := Pretender())
    assert Counter(first.asked) == dict.fromkeys(replicates_of(CASES, 2), PRECISION.max_rounds)
    assert set(first.asked[:4]) == set(first.asked[4:]) == set(replicates_of(CASES, 2))
    assert first.asked != second.asked
    for case in CASES:
        assert twins.times_s[case] == [pytest.approx([case.seq_len, 1.1 * case.seq_len])] * 2
    assert twins.clock_s == 4e-8
    assert twins.failures == []


def test_trials_beside_a_slow_probe_are_counted() -> None:
    assert run(Pretender()).disturbed_share == 0
    twins = run(runner := Pretender(probe_s=1.3))
    assert twins.disturbed_share == pytest.approx((len(runner.asked) // 4) / len(runner.asked))


def test_a_copy_that_fails_has_no_time_and_a_reason() -> None:
    twins = run(Pretender(fails=replicates_of(CASES, 2)[0]))
    assert [len(times) for times in twins.times_s[CASES[0]]] == [1]
    assert [len(times) for times in twins.times_s[CASES[1]]] == [2]
    assert twins.failures == ["rnn.torch n=64 d=16 h=1 threads=2: killed: by SIGKILL"]


def test_the_noise_floor_takes_54_trials_on_a_gpu() -> None:
    config = _calibration_config(["device=cuda"], None)
    twins = replicates_of(grid(config.axes, lambda impl: True, config.points))
    assert len(twins) * REPEATS * config.precision.min_rounds == 54
    # Each trial has half a second under load, so the limit on time ends a case after its fewest rounds.
    assert config.precision.min_rounds * LOAD_S > config.precision.case_s


def test_a_gpu_is_calibrated_at_sizes_that_keep_it_busy() -> None:
    on_gpu = _calibration_config(["device=cuda:1"], None).axes
    assert (on_gpu["seq_len"], on_gpu["d_model"], on_gpu["dtype"]) == ((4096,), (1024,), ("bfloat16",))
    assert _calibration_config([], None).axes["seq_len"] == (256, 1024)
