"""The A/A run: the same cases several times over, side by side in the rounds of a real sweep.

What is calibrated is so what measures: the sweep's own driver, runner, stopping rule and estimate.
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

# Three of each give three pairs for the price of three measurements; repeats have warm parents of their own.
COPIES = 3
REPEATS = 3


@dataclass(frozen=True, order=True)
class Twin(Case):
    """A case that is measured more than once: alike in everything but the number of the copy."""

    copy: int = 0


@dataclass
class Twins:
    """What the A/A run brought. `times_s` holds, for each case and each repeat, a time per copy, in seconds.

    `clock_s` is what one reading of the clock takes, `disturbed_share` the share of trials beside which the
    machine's pulse was slow (None on a GPU, which has no pulse), `failures` why trials brought no time.
    """

    times_s: dict[Case, list[list[float]]] = field(default_factory=dict)
    clock_s: float | None = None
    disturbed_share: float | None = None
    failures: list[str] = field(default_factory=list)


class _Log:
    """Where the rows of one repeat go."""

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
    """Every case as often as asked."""
    return [Twin(**case.as_dict(), copy=copy) for case in cases for copy in range(copies)]


def measure_twins(
    cases: Sequence[Case],
    traits: Mapping[str, Traits],
    precision: Precision,
    repeat: Callable[[Callable[[TrialRunner, Watcher], None]], None],
    copies: int = COPIES,
    repeats: int = REPEATS,
) -> Twins:
    """The A/A run. `repeat` calls what it is given with a fresh runner and a watcher of the repeat."""
    logs: list[_Log] = []

    def sweep(runner: TrialRunner, watcher: Watcher) -> None:
        log = _Log()
        seed = len(logs)  # another order of the rounds in each repeat
        logs.append(log)
        Sweep(twins_of(cases, copies), traits, precision, runner, log, watcher, seed).time_in_rounds()

    for _ in range(repeats):
        repeat(sweep)
    return gather(cases, logs)


def gather(cases: Sequence[Case], logs: Sequence[_Log]) -> Twins:
    """The estimates of all repeats, each as a sweep of its own would make them; a copy that failed has none."""
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
