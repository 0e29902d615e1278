"""This harness as a method: rounds in random order, each trial in a fresh process. All use of its insides is here."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.grid import ROUNDS, TRIAL_S
from benchmarks.peers.method import Readings
from harness.core.config import Precision
from harness.core.layers.layer_lookup import registered
from harness.core.model.sweep_axes import Case
from harness.core.results.row import trial_of_row
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.core.run.scheduler import Scheduler
from harness.core.stats.estimate import Estimate, Trial, best_probe, estimate

# Every case gets all its rounds: what is compared is the estimate, at a given wall time.
PRECISION = Precision(
    target=1e-9,
    min_rounds=ROUNDS,
    max_rounds=ROUNDS,
    trial_s=TRIAL_S,
    timeout_s=60,
    case_s=math.inf,
    patience_s=2,
)


@dataclass
class Repeat:
    """What one repeat measured: its rows, in order, each with `took_s`, the time from the row before to this one.

    `start_s` is the time until the first trial, `wall_s` the whole.
    """

    rows: list[dict[str, Any]]
    start_s: float
    wall_s: float


class Harness:
    """Verification and facts, which no other method has, are left out. It keeps every repeat that it measured."""

    name = short = "this harness"
    isolation = f"a process a trial, {ROUNDS} trials a case, in rounds of random order; its heap laid out at random"

    def __init__(self) -> None:
        self.repeats: list[Repeat] = []

    def measure(self, cases: Sequence[Case], wall_s: float) -> Readings:
        """`wall_s` is not used: its rounds set the pace for the others."""
        began = time.monotonic()
        kept = _Rows(began)
        with Executor(seed=0, trial_s=TRIAL_S, timeout_s=60, memory_limit=None) as runner:
            layers = {case.impl: registered(case.impl) for case in cases}
            Scheduler(cases, layers, PRECISION, runner, kept, kept).time_in_rounds()
        self.repeats.append(Repeat(kept.rows, kept.start_s, time.monotonic() - began))
        estimates = estimates_of(trials_of(kept.rows))
        return {"estimate": {case: estimates[case].time_s for case in cases}}


class _Rows:
    """Sink and watcher of the sweep: keeps the rows of timed trials."""

    def __init__(self, began: float) -> None:
        self.rows: list[dict[str, Any]] = []
        self.start_s = 0.0
        self._last = began

    def write(self, row: Mapping[str, Any]) -> None:
        if row["status"] != "ok":
            raise RuntimeError(f"{row['key']}: {row['status']}: {row['reason']}")
        now = time.monotonic()
        took_s = now - self._last
        if not self.rows:
            self.start_s, took_s = took_s - row["wall_s"], row["wall_s"]
        self.rows.append({**row, "took_s": round(took_s, 6)})
        self._last = now

    def starting(self, phase: str, number: int) -> None: ...
    def trial(self, case: Case, outcome: TrialOutcome) -> None: ...
    def finished(self, case: Case, status: str) -> None: ...
    def added(self, cases: Collection[Case]) -> None: ...


@dataclass(frozen=True)
class SampledTrial(Trial):
    """A trial with all of its samples."""

    samples_s: tuple[float, ...] = ()


def trials_of(rows: Sequence[Mapping[str, Any]]) -> dict[Case, list[SampledTrial]]:
    """Each case's trials, in the order in which they were measured."""
    trials: dict[Case, list[SampledTrial]] = {}
    for row in rows:
        trial = SampledTrial(**vars(trial_of_row(row)), samples_s=tuple(row["samples_s"]))
        trials.setdefault(Case.from_dict(row["case"]), []).append(trial)
    return trials


def estimates_of(trials: Mapping[Case, Sequence[Trial]]) -> dict[Case, Estimate]:
    """Each case's estimate, as a sweep of just these trials would give it."""
    best = best_probe([trial for of_case in trials.values() for trial in of_case])
    return {case: estimate(of_case, best) for case, of_case in trials.items()}
