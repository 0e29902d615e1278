"""Estimate the time of a case and its 95 % confidence interval from the spread between trials.

Noise on a busy machine mostly adds time: a neighbour, a page fault, a lower clock. The value of a trial is therefore
its fastest sample. The time of a case is a low quantile of these values. Of the estimators tried, this one is among the
most repeatable. The reasons are in `docs/estimator.md`; `tests/bench/bench_estimators.py` prints the figures.

Trials are independent of each other, but samples of one trial are not. The interval is therefore computed from the
spread between trials alone. A wide interval means that the trials disagree about the position of the fast ones.

Disturbed trials (see `quiet`) do not count for the time if others exist. Several of them may agree on a wrong time. The
fastest trial always counts. The spread is that of all trials, so a disturbed machine widens the interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from harness.stats.interval import grown, reach
from harness.stats.quantile import low_quantile, low_quantile_of
from harness.stats.trials import Trial, quiet

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


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


def estimate(trials: Sequence[Trial], best_pulse_s: float | None = None) -> Estimate:
    """Estimate the time of a case from its trials. Raises ValueError without trials, or for one without samples.

    A single trial says nothing about the spread between trials, so its interval is (0, ∞).
    """
    if not trials or not all(trial.samples_s for trial in trials):
        raise ValueError("an estimate needs at least one trial, and each trial at least one sample")
    middle = median(trial.median_s for trial in trials)
    every = _values(trials)
    # Relative to the fastest, so that an estimate equal to the fastest is exact to the last digit.
    low = low_quantile(np.log(_values(counted(trials, best_pulse_s)) / every[0]))
    return _estimate(every[0], float(low), reach(np.log(every)) if len(every) > 1 else None, middle)


def _values(trials: Sequence[Trial]) -> Floats:
    return np.sort([trial.value_s for trial in trials])


def counted(trials: Sequence[Trial], best_pulse_s: float | None) -> list[Trial]:
    """The trials that count for the time: the fastest and the quiet ones. If no other is quiet, all count."""
    fastest = min(trials, key=lambda trial: trial.value_s)
    others = [trial for trial in quiet(trials, best_pulse_s) if trial is not fastest]
    return [fastest, *others] if others else list(trials)


def _estimate(fastest: float, low: float, reaches: tuple[Floats, Floats] | None, middle: float) -> Estimate:
    """Build an estimate from logarithms.

    `low` is log(time / fastest); `reaches` are the distances down and up to the ends of the interval, or None.
    """
    time_s = float(fastest) * math.exp(low)
    if reaches is None:
        return Estimate(time_s, 0.0, math.inf, middle)
    down, up = reaches
    return Estimate(time_s, time_s * math.exp(-float(down)), time_s * grown(float(up)), middle)


def estimates(values_s: Floats, medians_s: Floats, calm: Flags) -> list[Estimate]:
    """Estimate many cases with the same number of trials, like `estimate`. All arrays are (cases, trials).

    They hold, for each trial, its fastest sample, the median of its samples, and whether it was quiet.
    """
    number = values_s.shape[1]
    every = np.sort(values_s, axis=1)
    fastest = every[:, :1]
    counting = _counted(values_s, calm)
    ordered = np.sort(np.where(counting, values_s, np.inf), axis=1)
    lows = low_quantile_of(np.log(ordered / fastest), counting.sum(axis=1))
    reaches = zip(*reach(np.log(every)), strict=True) if number > 1 else [None] * len(every)
    of_cases = zip(fastest[:, 0].tolist(), lows.tolist(), reaches, middles(medians_s), strict=True)
    return [_estimate(*of_case) for of_case in of_cases]


def _counted(values_s: Floats, calm: Flags) -> Flags:
    """Which trials count (cases, trials), by the rule of `counted`."""
    fastest = np.zeros(values_s.shape, dtype=bool)
    fastest[np.arange(len(values_s)), values_s.argmin(axis=1)] = True
    counting = calm | fastest
    return counting | (counting.sum(axis=1) == 1)[:, None]


def middles(values: Floats) -> list[float]:
    """The median of each row (cases, N)."""
    ordered = np.sort(values, axis=1)
    last = values.shape[1] - 1
    low, high = ordered[:, last // 2], ordered[:, last - last // 2]
    return [float(x) for x in (low if last % 2 == 0 else (low + high) / 2)]
