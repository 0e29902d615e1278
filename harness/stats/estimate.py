"""Estimate the time of a case and its 95 % confidence interval from the spread between trials.

Noise on a busy machine mostly adds time: a neighbour, a page fault, a lower clock. The value of a trial is therefore
its fastest sample. The time of a case is a low quantile of these values. Of the estimators tried, this one is among the
most repeatable. The reasons are in `docs/estimator.md`; `tests/bench/bench_estimators.py` prints the figures.

Trials are independent of each other, but samples of one trial are not. The interval is therefore computed from the
spread between trials alone. A wide interval means that the trials disagree about the position of the fast ones.

Most functions are vectorised over leading axes. This allows simulating the coverage (`tests/stats/test_coverage.py`),
and estimating all cases of a large run at once.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist, median

import numpy as np
from numpy.typing import NDArray

LEVEL = 1 / 6

Floats = NDArray[np.float64]


def low_quantile(ordered: Floats) -> Floats:
    """The quantile at `LEVEL` of values (…, N) that ascend along the last axis: x at rank LEVEL · (N + 1).

    It is the time of a case: the time below which one trial in six falls. It is not the minimum, because the minimum of
    more trials is lower. Two runs of different length could not be compared, and an interval around a moving number
    covers nothing. With up to five trials, the quantile is the fastest trial nevertheless.
    """
    below, share = rank(ordered.shape[-1])
    lower = ordered[..., below - 1]
    return lower if share == 0 else (1 - share) * lower + share * ordered[..., below]


def rank(number: int) -> tuple[int, float]:
    """Position of the quantile among `number` values: the rank below it, and the fraction towards the next."""
    place = min(max(LEVEL * (number + 1), 1.0), float(number))
    below = math.floor(place)
    return below, place - below


def low_quantile_of(ordered: Floats, numbers: NDArray[np.int64]) -> Floats:
    """Quantile as by `low_quantile`, of only the first `numbers` (…) of the values (…, N)."""
    place = np.clip(LEVEL * (numbers + 1), 1.0, numbers)
    below = np.floor(place).astype(np.int64)
    share = place - below
    lower = np.take_along_axis(ordered, (below - 1)[..., None], axis=-1)[..., 0]
    upper = np.take_along_axis(ordered, np.minimum(below, numbers - 1)[..., None], axis=-1)[..., 0]
    return np.where(share == 0, lower, (1 - share) * lower + share * upper)


CONFIDENCE = 0.95
# Share of the trials that form the lower part; at least `LEAST_AGREEMENT` trials, or all if there are fewer.
LOWER_PART = 0.4
LEAST_AGREEMENT = 3
# Enough draws for factors accurate to 1 to 2 %. The factors of few trials vary most, and get the most draws.
_DRAWS = 600_000
_FEWEST_DRAWS = 20_000
# Above this number of trials, only the four of `_of_four` are drawn. It is more than twice the rounds of any precision
# in conf/ …
_MOST_WHOLE = 128
_DRAWS_OF_FOUR = 100_000
# … and only at this many numbers of trials per factor of two. Log-log interpolation between them is accurate to within
# 0.2 %.
_NODES_AN_OCTAVE = 4


def share_agreeing(number: int) -> int:
    """k: how many of `number` trials, the lowest ones, determine the interval."""
    return min(number, max(LEAST_AGREEMENT, math.ceil(LOWER_PART * number)))


@cache
def interval_factors(number: int) -> tuple[float, float]:
    """Distances `(down, up)` from the estimate, in units of x_k − x₁, for sorted normal x₁ … x_number.

    An interval that reaches so far contains the low quantile 95 times in 100 if trials differ by log-normal noise. The
    distances have no closed form, so they are simulated, with a fixed seed.
    """
    if number <= _MOST_WHOLE:
        return _whole(number)
    place = _NODES_AN_OCTAVE * math.log2(number / _MOST_WHOLE)
    node = math.floor(place)
    (down, up), (next_down, next_up) = _of_node(node), _of_node(node + 1)
    share = place - node
    return down ** (1 - share) * next_down**share, up ** (1 - share) * next_up**share


def _whole(number: int) -> tuple[float, float]:
    """Factors simulated with all trials."""
    draws = np.sort(np.random.default_rng(0).standard_normal((max(_FEWEST_DRAWS, _DRAWS // number**2), number)), axis=1)
    return _tail_factors(low_quantile(draws), draws[:, 0], draws[:, share_agreeing(number) - 1])


@cache
def _of_node(node: int) -> tuple[float, float]:
    return _of_four(round(_MOST_WHOLE * 2 ** (node / _NODES_AN_OCTAVE)))


def _of_four(number: int) -> tuple[float, float]:
    """Factors simulated with the lowest trial, the two around the quantile, and the k-th.

    Only these four determine the interval. They can be drawn alone, because the order statistics of uniform numbers are
    partial sums of independent exponential numbers, divided by the total (Rényi 1953). The cost then does not grow with
    the number of trials.
    """
    from scipy.special import ndtri  # imported here: it takes 0.1 s, and few runs need it

    k = share_agreeing(number)
    below, share = rank(number)
    steps = (1, below - 1, 1, k - below - 1, number + 1 - k)
    draws = np.random.default_rng(0)
    sums = np.cumsum([draws.standard_gamma(step, _DRAWS_OF_FOUR) for step in steps], axis=0)
    lowest, lower, upper, kth = ndtri(sums[:-1] / sums[-1])
    return _tail_factors((1 - share) * lower + share * upper, lowest, kth)


def _tail_factors(
    estimates: NDArray[np.float64], lowest: NDArray[np.float64], kth: NDArray[np.float64]
) -> tuple[float, float]:
    too_high = (estimates - NormalDist().inv_cdf(LEVEL)) / (kth - lowest)
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(too_high, 1 - tail)), max(0.0, -float(np.quantile(too_high, tail)))


# Factor that widens the interval to correct for stopping when it is narrow. It adds to the trials made after that
# (see `harness.stats.stopping`).
PEEKING_INFLATION = 1.02
# The exponential of a larger number overflows.
_MOST_LOG = math.log(np.finfo(float).max)

Logs = NDArray[np.float64]


def half_width_of(ordered: Logs) -> tuple[Logs, Logs]:
    """Distances `(down, up)`, each (…), from the estimate to the ends of its 95 % confidence interval.

    On a logarithmic scale, they are the distance from the lowest to the k-th lowest trial, times `interval_factors`.
    The factors give a coverage of 95 in 100 under log-normal noise between trials. Only the lower part of the trials is
    used. Bursts and a second, slower cluster change the upper part, but not the position of the fast trials.

    `ordered` holds logarithms of times (…, N), N ≥ 2, ascending along the last axis.
    """
    number = ordered.shape[-1]
    down, up = interval_factors(number)
    distance = PEEKING_INFLATION * (ordered[..., share_agreeing(number) - 1] - ordered[..., 0])
    return down * distance, up * distance


def widened(log: float) -> float:
    """e to the power `log`; infinite if that overflows."""
    return math.exp(log) if log < _MOST_LOG else math.inf


def half_widths(values: Iterable[float], least: int) -> Iterator[float]:
    """Yield the half-width of the interval, as a share, of the first one, two, three … values.

    It is infinite for one value, and for fewer than `least`. The cost is n · log n steps for n values.
    """
    # Heaps of the k lowest values so far, negated to have the highest first, and of the others, lowest first.
    lower: list[float] = []
    upper: list[float] = []
    lowest = math.inf
    for number, value in enumerate(values, start=1):
        lowest = min(lowest, value)
        heapq.heappush(upper, -heapq.heappushpop(lower, -value))
        while len(lower) < share_agreeing(number):
            heapq.heappush(lower, -heapq.heappop(upper))
        if number < max(2, least):
            yield math.inf
        else:
            distance = PEEKING_INFLATION * math.log(-lower[0] / lowest)
            yield widened(max(interval_factors(number)) * distance) - 1


# The probe time of a quiet machine stays within 10 % of its best. On a disturbed machine, it is at least 25 % above it.
QUIET_PULSE = 1.15


@dataclass(frozen=True)
class Trial:
    """The samples of a trial in seconds per call, its wall time, and its probe time (`probe_s`), if any."""

    samples_s: Sequence[float]
    wall_s: float = 0.0
    probe_s: float | None = None

    @classmethod
    def of(cls, value_s: float, median_s: float, wall_s: float = 0.0, probe_s: float | None = None) -> "Trial":
        """A trial that keeps only its fastest sample and its median, which are all that statistics use."""
        return cls((value_s, median_s, median_s), wall_s, probe_s)

    @cached_property
    def value_s(self) -> float:
        """The value of the trial: its fastest sample."""
        return min(self.samples_s)

    @cached_property
    def median_s(self) -> float:
        """The median of its samples."""
        return median(self.samples_s)


def best_pulse(trials: Sequence[Trial]) -> float | None:
    """The best probe time of these trials, an estimate for the quiet machine; None without a probe."""
    return min((trial.probe_s for trial in trials if trial.probe_s is not None), default=None)


def any_quiet(trials: Sequence[Trial], best_probe_s: float | None) -> list[Trial]:
    """The trials during which the machine ran at full speed, judged by the probe."""
    return [trial for trial in trials if is_quiet(trial.probe_s, best_probe_s)]


def is_quiet(probe_s: float | None, best_probe_s: float | None) -> bool:
    """Whether the probe time indicates full speed. A trial without a probe counts as quiet."""
    return probe_s is None or best_probe_s is None or probe_s <= QUIET_PULSE * best_probe_s


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


def estimate(trials: Sequence[Trial], best_probe_s: float | None = None) -> Estimate:
    """Estimate the time of a case from its trials. Raises ValueError without trials, or for one without samples.

    Disturbed trials (see `is_quiet`) do not count for the time if others exist: several of them may agree on a wrong
    time. The fastest trial always counts. The spread is that of all trials, so a disturbed machine widens the interval.

    A single trial says nothing about the spread between trials, so its interval is (0, ∞).
    """
    if not trials or not all(trial.samples_s for trial in trials):
        raise ValueError("an estimate needs at least one trial, and each trial at least one sample")
    middle = median(trial.median_s for trial in trials)
    every = _values(trials)
    # Relative to the fastest, so that an estimate equal to the fastest is exact to the last digit.
    low = low_quantile(np.log(_values(counted(trials, best_probe_s)) / every[0]))
    return _estimate(every[0], float(low), half_width_of(np.log(every)) if len(every) > 1 else None, middle)


def _values(trials: Sequence[Trial]) -> Floats:
    return np.sort([trial.value_s for trial in trials])


def counted(trials: Sequence[Trial], best_probe_s: float | None) -> list[Trial]:
    """The trials that count for the time: the fastest and the quiet ones. If no other is quiet, all count."""
    fastest = min(trials, key=lambda trial: trial.value_s)
    others = [trial for trial in any_quiet(trials, best_probe_s) if trial is not fastest]
    return [fastest, *others] if others else list(trials)


def _estimate(fastest: float, low: float, reaches: tuple[Floats, Floats] | None, middle: float) -> Estimate:
    """Build an estimate from logarithms.

    `low` is log(time / fastest); `reaches` are the distances down and up to the ends of the interval, or None.
    """
    time_s = float(fastest) * math.exp(low)
    if reaches is None:
        return Estimate(time_s, 0.0, math.inf, middle)
    down, up = reaches
    return Estimate(time_s, time_s * math.exp(-float(down)), time_s * widened(float(up)), middle)


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
    reaches = zip(*half_width_of(np.log(every)), strict=True) if number > 1 else [None] * len(every)
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
