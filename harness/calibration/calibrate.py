"""Measure a machine: read its settings, make an A/A run, then measure its peaks.

What else runs is recorded during the A/A run.
"""

import itertools
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from harness.calibration.load import load_between, snapshot
from harness.calibration.measured import Calibration
from harness.calibration.noise import between_floor, distances, noise_floor
from harness.calibration.state import read_state
from harness.calibration.twins import COPIES, REPEATS, Twins, measure_twins, twins_of
from harness.case import DTYPES, Case
from harness.catalog import Traits
from harness.config import Precision
from harness.errors import UsageError
from harness.machine import cpu_model
from harness.sweep.driver import TrialRunner, Watcher

# A peak needs a few calls at each of a few sizes. This is the sampling time of so many trials, 0.4 s with `quick`.
# Peaks are measured in rounds too, so that a burst of noise does not disturb every round of one dtype.
PEAK_TRIALS = 4
PEAK_ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """What to calibrate with. All `cases` share device, threads and dtype. `name` is the precision's name."""

    cases: Sequence[Case]
    traits: Mapping[str, Traits]
    precision: Precision
    name: str
    seed: int


RunnerFor = Callable[[float], AbstractContextManager[TrialRunner]]
WatcherFor = Callable[[Sequence[Case]], AbstractContextManager[Watcher]]


def calibrate(plan: Plan, runner_for: RunnerFor, watcher_for: WatcherFor, say: Callable[[str], None]) -> Calibration:
    """Measure the machine, in about a minute with `quick`.

    `runner_for(trial_s)` returns a runner with that sampling time. `watcher_for(cases)` returns an object that follows
    a repeat's progress. `say` receives what comes next. Raises UsageError if no case could be timed twice.
    """
    began = time.monotonic()
    state = read_state()
    one = plan.cases[0]
    before = snapshot()
    twins = _aa(plan, runner_for, watcher_for, say)
    load = load_between(before, snapshot())
    blocks = [times for repeats in twins.times_s.values() for times in repeats]
    if twins.clock_s is None or all(len(times) < 2 for times in blocks):
        raise UsageError(f"no case could be timed twice: {'; '.join(twins.failures)}")
    say("peaks: matrix products and memory")
    with runner_for(PEAK_TRIALS * plan.precision.trial_s) as runner:
        torch = runner.run("machine")
        flops, bandwidth = _peaks(one, runner)
    outcomes = {**{f"peak of {dtype}": outcome for dtype, outcome in flops.items()}, "bandwidth": bandwidth}
    failures = [f"{what}: {o['status']}: {o['reason']}" for what, o in outcomes.items() if o["status"] != "ok"]
    good = {dtype: outcome for dtype, outcome in flops.items() if outcome["status"] == "ok"}
    return Calibration(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        cpu_model=cpu_model(),
        gpu=torch["gpu"],
        torch_version=torch["version"],
        device=one.device,
        threads=one.threads,
        dtype=one.dtype,
        precision=plan.name,
        limits=asdict(plan.precision),
        took_s=round(time.monotonic() - began, 1),
        clock_s=twins.clock_s,
        noise=noise_floor(blocks),
        noise_between_repeats=between_floor(list(twins.times_s.values())),
        noise_by_case=_by_case(twins),
        disturbed_share=twins.disturbed_share,
        peak_flops_per_s={dtype: outcome["flops_per_s"] for dtype, outcome in good.items()},
        peak_sizes={dtype: outcome["size"] for dtype, outcome in good.items()},
        bandwidth=_measured(bandwidth),
        failures=(*failures, *twins.failures),
        load=load,
        state=state,
    )


Outcome = dict[str, Any]


def _peaks(like: Case, runner: TrialRunner) -> tuple[dict[str, Outcome], Outcome]:
    """The outcomes of the best rounds: FLOP/s by dtype, and the bandwidth.

    A measurement that failed in any round counts as failed.
    """
    rounds = []
    for _ in range(PEAK_ROUNDS):
        flops = {dtype: runner.run("flops", _carrier(like, dtype)) for dtype in DTYPES}
        rounds.append((flops, runner.run("bandwidth", _carrier(like, "float32"))))
    best = {dtype: _best([flops[dtype] for flops, _ in rounds], "flops_per_s") for dtype in DTYPES}
    return best, _best([bandwidth for _, bandwidth in rounds], "bandwidth_bytes_per_s")


def _best(outcomes: Sequence[Outcome], rate: str) -> Outcome:
    failed = [outcome for outcome in outcomes if outcome["status"] != "ok"]
    return failed[0] if failed else max(outcomes, key=lambda outcome: outcome[rate])


def _aa(plan: Plan, runner_for: RunnerFor, watcher_for: WatcherFor, say: Callable[[str], None]) -> Twins:
    copies = twins_of(plan.cases)
    number = itertools.count(1)

    def repeat(sweep: Callable[[TrialRunner, Watcher], None]) -> None:
        say(f"noise: repeat {next(number)} of {REPEATS}, {len(plan.cases)} cases {COPIES} times each")
        with runner_for(plan.precision.trial_s) as runner, watcher_for(copies) as watcher:
            sweep(runner, watcher)

    return measure_twins(plan.cases, plan.traits, plan.precision, repeat)


def _carrier(like: Case, dtype: str) -> Case:
    """A case that carries device, threads and dtype to a peak measurement, which ignores the rest."""
    return Case(like.impl, 1, 1, 1, dtype=dtype, device=like.device, threads=like.threads)


def _by_case(twins: Twins) -> dict[str, float]:
    apart = {
        case: max((distance for times in repeats for distance in distances(times)), default=None)
        for case, repeats in twins.times_s.items()
    }
    return {case.key: math.expm1(most) for case, most in apart.items() if most is not None}


def _measured(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's measurements without its status and durations; empty if the trial failed."""
    if outcome["status"] != "ok":
        return {}
    return {name: value for name, value in outcome.items() if name not in ("status", "reason", "wall_s", "start_s")}
