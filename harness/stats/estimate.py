"""A case's time and its interval, from the spread between trials.

Noise on a busy machine mostly adds: a neighbour, a page fault, a lower clock. A trial's value is therefore its
fastest sample, and the case's time a low quantile over trials. Of the estimators tried this one is among those that
repeat best: `docs/estimator.md` has the reasons, `tests/bench/bench_estimators.py` prints the figures.

Trials are independent of each other, samples of one trial are not: only the spread between trials makes the interval.
Wide means that the trials do not agree where the fast ones lie.

Trials taken while the machine itself was slow (see `quiet`) do not count for the time where there are others: several
of them may agree with each other, and on the wrong one. The fastest trial counts whenever it was taken. The spread is
that of all trials: a machine that was not quiet makes the interval wide.
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
    """A case's time, in seconds: `lo_s` <= `time_s` <= `hi_s`, and the median over all its trials beside it."""

    time_s: float
    lo_s: float
    hi_s: float
    median_s: float

    @property
    def half_width(self) -> float:
        """How far the interval reaches to its longer side, as a share; infinite where there is none yet."""
        return max(self.hi_s / self.time_s, self.time_s / self.lo_s if self.lo_s > 0 else math.inf) - 1


def estimate(trials: Sequence[Trial], best_pulse_s: float | None = None) -> Estimate:
    """The case's time from its trials. Raises ValueError without any.

    A single trial says nothing of the spread between trials: its interval is (0, ∞).
    """
    if not trials or not all(trial.samples_s for trial in trials):
        raise ValueError("an estimate needs at least one trial, and each trial at least one sample")
    middle = median(trial.median_s for trial in trials)
    every = _values(trials)
    # As multiples of the fastest, so that where that is the estimate it is so to the last digit.
    low = low_quantile(np.log(_values(counted(trials, best_pulse_s)) / every[0]))
    return _estimate(every[0], float(low), reach(np.log(every)) if len(every) > 1 else None, middle)


def _values(trials: Sequence[Trial]) -> Floats:
    return np.sort([trial.value_s for trial in trials])


def counted(trials: Sequence[Trial], best_pulse_s: float | None) -> list[Trial]:
    """The trials that count for the time: the fastest and the quiet ones; all where no other was quiet."""
    fastest = min(trials, key=lambda trial: trial.value_s)
    others = [trial for trial in quiet(trials, best_pulse_s) if trial is not fastest]
    return [fastest, *others] if others else list(trials)


def _estimate(fastest: float, low: float, reaches: tuple[Floats, Floats] | None, middle: float) -> Estimate:
    """Of `low`, the logarithm of the estimate over the fastest, and how far down and up the interval reaches."""
    time_s = float(fastest) * math.exp(low)
    if reaches is None:
        return Estimate(time_s, 0.0, math.inf, middle)
    down, up = reaches
    return Estimate(time_s, time_s * math.exp(-float(down)), time_s * grown(float(up)), middle)


def estimates(values_s: Floats, medians_s: Floats, calm: Flags) -> list[Estimate]:
    """What `estimate` says of many cases with equally many trials, all arrays (cases, trials).

    Of each trial its fastest sample, the median of its samples, and whether it was quiet.
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
    """Which trials count, (cases, trials): see `counted`."""
    fastest = np.zeros(values_s.shape, dtype=bool)
    fastest[np.arange(len(values_s)), values_s.argmin(axis=1)] = True
    counting = calm | fastest
    return counting | (counting.sum(axis=1) == 1)[:, None]


def middles(values: Floats) -> list[float]:
    """The median of each (cases, N)."""
    ordered = np.sort(values, axis=1)
    last = values.shape[1] - 1
    low, high = ordered[:, last // 2], ordered[:, last - last // 2]
    return [float(x) for x in (low if last % 2 == 0 else (low + high) / 2)]
