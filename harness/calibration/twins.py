"""The A/A run: the same cases several times over, side by side in the rounds of a real sweep.

It uses the sweep's own driver, runner, stopping rule and estimate, so the calibration covers what measures later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

from harness.case import Case
from harness.catalog import Traits
from harness.config import Precision
from harness.stats.estimate import estimate
from harness.stats.trials import Trial, best_pulse, quiet
from harness.summary.trial_row import trial_of
from harness.sweep.driver import Sweep, TrialRunner, Watcher

# Three copies give three pairs for the cost of three measurements. Each repeat has its own fork server.
COPIES = 3
REPEATS = 3


@dataclass(frozen=True, order=True)
class Twin(Case):
    """One of several copies of a case, which differ only in the number `copy`."""

    copy: int = 0


@dataclass
class Twins:
    """The result of the A/A run. `times_s` holds one time per copy, in seconds, for each case and repeat.

    One reading of the clock takes `clock_s`. The share of trials during which the probe was slow is `disturbed_share`;
    it is None on a GPU, which has no probe. The list `failures` says why trials gave no time.
    """

    times_s: dict[Case, list[list[float]]] = field(default_factory=dict)
    clock_s: float | None = None
    disturbed_share: float | None = None
    failures: list[str] = field(default_factory=list)


class _Log:
    """A sink for the rows of one repeat."""

    def __init__(self) -> None:
        self.trials: dict[Twin, list[Trial]] = {}
        self.clocks_s: list[float] = []
        self.failures: dict[Twin, str] = {}

    def write(self, row: Mapping[str, Any]) -> None:
        twin = Twin(**{name: row["case"][name] for name in _FIELDS})
        if row["status"] != "ok":
            self.failures[twin] = f"{Case.from_dict(row['case'])}: {row['status']}: {row['reason']}"
            return
        self.trials.setdefault(twin, []).append(trial_of(row))
        self.clocks_s.append(row["clock_s"])


_FIELDS = tuple(field.name for field in fields(Twin))


def twins_of(cases: Sequence[Case], copies: int = COPIES) -> list[Twin]:
    """Every case, `copies` times."""
    return [Twin(**case.as_dict(), copy=copy) for case in cases for copy in range(copies)]


def measure_twins(
    cases: Sequence[Case],
    traits: Mapping[str, Traits],
    precision: Precision,
    repeat: Callable[[Callable[[TrialRunner, Watcher], None]], None],
    copies: int = COPIES,
    repeats: int = REPEATS,
) -> Twins:
    """Make the A/A run. `repeat` calls its argument with a fresh runner and a watcher for that repeat."""
    logs: list[_Log] = []

    def sweep(runner: TrialRunner, watcher: Watcher) -> None:
        log = _Log()
        seed = len(logs)  # so that each repeat has its own order within rounds
        logs.append(log)
        Sweep(twins_of(cases, copies), traits, precision, runner, log, watcher, seed).time_in_rounds()

    for _ in range(repeats):
        repeat(sweep)
    return gather(cases, logs)


def gather(cases: Sequence[Case], logs: Sequence[_Log]) -> Twins:
    """The estimates of all repeats, each computed as in a sweep of its own.

    A copy that failed has no estimate.
    """
    result = Twins(times_s={case: [] for case in cases})
    everything = [trial for log in logs for trials in log.trials.values() for trial in trials]
    best = best_pulse(everything)
    if best is not None:
        result.disturbed_share = 1 - len(quiet(everything, best)) / len(everything)
    clocks_s = [clock_s for log in logs for clock_s in log.clocks_s]
    result.clock_s = median(clocks_s) if clocks_s else None
    for log in logs:
        best_of_repeat = best_pulse([trial for trials in log.trials.values() for trial in trials])
        for case in cases:
            good = [twin for twin in log.trials if twin not in log.failures and Case.from_dict(twin.as_dict()) == case]
            result.times_s[case].append([estimate(log.trials[twin], best_of_repeat).time_s for twin in sorted(good)])
    result.failures = sorted({reason for log in logs for reason in log.failures.values()})
    return result
