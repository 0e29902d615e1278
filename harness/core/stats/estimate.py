"""Estimate the time of a case and its 95 % confidence interval from its trials, and decide when they are enough.

Noise on a busy machine mostly adds time: a neighbour, a page fault, a lower clock. The value of a trial is therefore
made of its fastest samples, one of every three. The time of a case is a low quantile of these values. Of the estimators
tried, this one is among the most repeatable. The reasons are in `docs/explanation/estimator.md`;
`benchmarks/bench_estimators.py` prints the figures.

Trials are independent of each other, but samples of one trial are not. The interval is therefore computed from the
spread between trials alone. A wide interval means that the trials disagree about the position of the fast ones.

Most functions are vectorised over leading axes. This allows simulating the coverage
(`tests/core/stats/test_coverage.py`), and estimating all cases of a large run at once.

A rule that stops as soon as the interval is narrow selects moments at which it is narrow by chance. The interval then
contains the true value less often than stated: 91 times in 100 instead of 95, in simulation. Two measures correct this.
Once the interval is narrow, half as many trials are added, whatever they measure. The interval is also slightly wider
than without interim looks (`PEEKING_INFLATION`). The figures are in
`docs/explanation/estimator.md`. No such rule is needed if every case gets the same number of trials.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .interval import Floats, exp_or_inf, half_widths, log_distances_to_ends, low_quantile, spread, suffice

Flags = NDArray[np.bool_]

# The probe time of a quiet machine stays within 10 % of its best. On a disturbed machine, it is mostly 25 % above it or
# more. A state only 13 % above it was seen once; it counts as quiet.
QUIET_PROBE = 1.15


# The more samples, the faster the fastest one, and trials of short calls have more samples. The value of a trial
# therefore uses the fastest sample of each stretch of so many, whatever the number of samples. A trial has at least
# one stretch.
STRETCH = 3
# The clocks of GPUs have ticks of up to about a microsecond. Ticks are coarse if there are `TIES` samples or more for
# each different value. Equal times differ by up to the share `SAME` through rounding.
LARGEST_TICK_S, TIES, SAME = 2e-6, 4, 1e-5


def value_of_trial(samples_s: Floats, device: str) -> float:
    """The value of a trial in seconds per call: the mean of the fastest samples of all stretches of `STRETCH`.

    Samples beyond the last whole stretch do not count. Of fewer samples than a stretch, it is the fastest.

    On a GPU, it is the median of the samples (`median_between_ticks`): little disturbs a GPU, and its fastest samples
    are moments of a high clock rate.
    """
    if device != "cpu":
        return median_between_ticks(samples_s)
    stretches = len(samples_s) // STRETCH
    if stretches < 2:
        return float(np.minimum.reduce(samples_s[:STRETCH]))
    fastest = np.minimum.reduce(samples_s[: stretches * STRETCH].reshape(stretches, STRETCH), axis=1)
    return float(np.add.reduce(fastest) / stretches)


def median_between_ticks(samples_s: Floats | Sequence[float]) -> float:
    """The median. If the samples are multiples of a coarse tick, it is the mean of those within a tick of the median.

    Times are rounded down or up to a tick as often as their mean demands, but their median is one of the two. Samples
    have coarse ticks if there are at least `TIES` of them for each different value. The smallest difference is a tick.
    """
    ordered = np.sort(samples_s)
    middle, steps = ordered[len(ordered) // 2], np.diff(ordered)
    steps = steps[steps > SAME * middle]
    if not 0 < len(steps) * TIES <= len(ordered) - TIES or steps.min() > LARGEST_TICK_S:
        return float(np.median(ordered))
    return float(ordered[np.abs(ordered - middle) < 1.5 * steps.min()].mean())  # 1.5: ticks are not exactly alike


@dataclass(frozen=True)
class Trial:
    """The value (`value_of_trial`) and the median sample of a trial in seconds per call, its wall and probe time.

    `interfered` is whether the GPU itself says that something else slowed it down.
    """

    value_s: float
    median_s: float
    wall_s: float = 0.0
    probe_s: float | None = None
    interfered: bool = False


def best_probe(trials: Sequence[Trial]) -> float | None:
    """The best probe time of these trials, an estimate for the quiet machine; None without a probe."""
    return min((trial.probe_s for trial in trials if trial.probe_s is not None), default=None)


def are_quiet(trials: Sequence[Trial], best_probe_s: float | None) -> Flags:
    """Which trials were quiet (trials,): the machine ran at full speed, by `is_quiet` and by the GPU itself."""
    interfered = np.array([trial.interfered for trial in trials], dtype=bool)
    return is_quiet([trial.probe_s for trial in trials], best_probe_s) & ~interfered


def is_quiet(probe_s: Any, best_probe_s: Any) -> Any:
    """Whether probe times indicate full speed, element by element. One without a value (None, NaN) counts as quiet."""
    probe, best = (np.asarray(values, dtype=float) for values in (probe_s, best_probe_s))
    return np.isnan(probe) | np.isnan(best) | (probe <= QUIET_PROBE * best)


@dataclass(frozen=True)
class Estimate:
    """The time of a case in seconds, with `lo_s` <= `time_s` <= `hi_s`, and the median over all its trials."""

    time_s: float
    lo_s: float
    hi_s: float
    median_s: float

    @property
    def half_width(self) -> float:
        """The larger distance from the time to an end of the interval, as a share; infinite without an interval."""
        return max(self.hi_s / self.time_s, self.time_s / self.lo_s if self.lo_s > 0 else math.inf) - 1


@dataclass(frozen=True)
class TrialStatistics:
    """What the trials of some cases say about their times; all arrays are (cases,).

    `time_s` is the low quantile of the trials that count, `numbers` how many those are, and `spreads` the distance from
    the lowest of them to the k-th lowest, as logarithms. `own_distances` (2, cases) holds the log distances
    down and up to the ends of the interval from these trials only. `medians_s` is the median over all trials.
    """

    time_s: Floats
    spreads: Floats
    numbers: NDArray[np.int64]
    own_distances: Floats
    medians_s: Floats


def trial_statistics(values_s: Floats, medians_s: Floats, quiet: Flags) -> TrialStatistics:
    """Combine the trials of many cases. All arrays are (cases, trials).

    They hold, for each trial, its value, the median of its samples, and whether it was quiet.
    """
    counting = counted(quiet)
    numbers = counting.sum(axis=1)
    ordered = np.sort(np.where(counting, values_s, np.inf), axis=1)
    fastest = ordered[:, :1]
    # Relative to the fastest, so that a time equal to the fastest is exact to the last digit.
    logs = np.log(ordered / fastest)
    time_s = fastest[:, 0] * np.exp(low_quantile(logs, numbers))
    own_distances = log_distances_to_ends(logs, numbers)
    return TrialStatistics(time_s, spread(logs, numbers), numbers, own_distances, np.median(medians_s, axis=1))


def counted(quiet: Flags) -> Flags:
    """Which trials count (cases, trials): the quiet ones if they `suffice`, and otherwise all.

    Time and interval are made of the same trials. Otherwise the interval would be too narrow on a machine that is
    disturbed most of the time: see `docs/explanation/estimator.md`.
    """
    return quiet | ~suffice(quiet.sum(axis=1), quiet.shape[1])[:, None]


def estimate(trials: Sequence[Trial], best_probe_s: float | None = None) -> Estimate:
    """Estimate the time of a case from its own trials. Raises ValueError without trials.

    Disturbed trials (see `is_quiet`) do not count if enough others exist (see `counted`): several of them may agree on
    a wrong time. A single trial says nothing about the spread between trials, so its interval is (0, ∞).
    """
    if not trials:
        raise ValueError("an estimate needs at least one trial")
    medians_s = [[trial.median_s for trial in trials]]
    values_s = [[trial.value_s for trial in trials]]
    statistics = trial_statistics(np.array(values_s), np.array(medians_s), are_quiet(trials, best_probe_s)[None])
    return estimates(statistics)[0]


def estimates(statistics: TrialStatistics, distances: Floats | None = None) -> list[Estimate]:
    """Estimates from the statistics and the log distances down and up to the ends of the intervals (2, cases).

    Without `distances`, each case's interval is from its own trials.
    """
    down, up = statistics.own_distances if distances is None else distances
    of_cases = statistics.time_s, down, up, statistics.medians_s
    return [
        Estimate(time_s, time_s * math.exp(-below), time_s * exp_or_inf(above), median_s)
        for time_s, below, above, median_s in zip(*(values.tolist() for values in of_cases), strict=True)
    ]


# Number of quiet trials that a case needs before the limit on trials may end it.
LEAST_QUIET = 2
# Trials added once the interval is narrow, as a share of the trials made before.
CONFIRMATION = 0.5


class Limits(Protocol):
    """The settings of a precision that the rule needs: shares, numbers of trials and seconds."""

    target: float
    min_rounds: int
    max_rounds: int
    case_s: float


def stop_reason(trials: Sequence[Trial], best_probe_s: float | None, limits: Limits) -> str | None:
    """The reason to stop, or None to continue.

    - The interval is as narrow as `target`, and already was with at most two thirds of the trials (`precise`). The
      second condition does not apply at the maximum number of trials.
    - The interval is wider, and the case has the maximum number of trials (`max_rounds`).
    - The trials of the case have taken `case_s`, and are at least `min_rounds` (`time_limit`).

    A case with fewer than `LEAST_QUIET` quiet trials continues beyond `max_rounds`.
    """
    quiet = are_quiet(trials, best_probe_s).tolist()
    # Computed only where it can decide, because the driver asks after each trial.
    half_width = estimate(trials, best_probe_s).half_width if sum(quiet) >= limits.min_rounds else math.inf
    wall_s = sum(trial.wall_s for trial in trials)
    return reason_of([trial.value_s for trial in trials], quiet, wall_s, half_width, limits)


def reason_of(
    values_s: Sequence[float], quiet: Sequence[bool], wall_s: float, half_width: float, limits: Limits
) -> str | None:
    """The reason to stop, as in `stop_reason`, from the values and quiet flags of a case's trials, in order.

    The interval of all trials has the `half_width`, a share. The trials together took `wall_s`.
    """
    number, number_quiet = len(values_s), sum(quiet)
    if number_quiet >= limits.min_rounds and half_width <= limits.target:
        quiet_so_far = list(itertools.accumulate(quiet))
        counted_so_far = [count if suffice(count, i) else i for i, count in enumerate(quiet_so_far, start=1)]
        widths = zip(quiet_so_far, half_widths(values_s, quiet, limits.min_rounds), strict=True)
        narrow = (count >= limits.min_rounds and width <= limits.target for count, width in widths)
        if confirmed(zip(counted_so_far, narrow, strict=True), number, counted_so_far[-1], limits):
            return "precise"
    if number >= limits.max_rounds and number_quiet >= min(LEAST_QUIET, limits.max_rounds):
        return "max_rounds"
    return "time_limit" if number >= limits.min_rounds and wall_s >= limits.case_s else None


def confirmed(looks: Iterable[tuple[int, bool]], number: int, counted: int, limits: Limits) -> bool:
    """Whether the interval, narrow after a `number` of trials, was narrow early enough for later ones to confirm it.

    Of these trials, `counted` count. After each trial, `looks` holds how many counted and whether the interval was
    narrow.
    """
    if number >= limits.max_rounds:
        return True  # no more trials are due, so none can confirm it
    return any(narrow and _due(early, limits) <= counted for early, narrow in looks)


def fewest(limits: Limits) -> int:
    """The number of trials of a case whose interval is narrow from the start."""
    return _due(limits.min_rounds, limits)


def _due(first: int, limits: Limits) -> int:
    """How many trials a case needs if its interval was narrow after `first` trials."""
    return min(first + math.ceil(CONFIRMATION * first), limits.max_rounds)
