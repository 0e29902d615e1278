"""Estimate the time of a case and its 95 % confidence interval from its trials, and decide when they are enough.

Noise on a busy machine mostly adds time: a neighbour, a page fault, a lower clock. The value of a trial is therefore
its fastest sample. The time of a case is a low quantile of these values. Of the estimators tried, this one is among the
most repeatable. The reasons are in `docs/estimator.md`; `tests/bench/bench_estimators.py` prints the figures.

Trials are independent of each other, but samples of one trial are not. The interval is therefore computed from the
spread between trials alone. A wide interval means that the trials disagree about the position of the fast ones.

Most functions are vectorised over leading axes. This allows simulating the coverage (`tests/stats/test_coverage.py`),
and estimating all cases of a large run at once.

A rule that stops as soon as the interval is narrow selects moments at which it is narrow by chance. The interval then
contains the true value less often than stated: 91 times in 100 instead of 95, in simulation. Two measures correct this.
Once the interval is narrow, half as many trials are added, whatever they measure. The interval is also slightly wider
than without interim looks (`PEEKING_INFLATION`). The coverage is then 93 to 97 in 100 for the kinds of noise in
`tests/stats/noise.py`. No such rule is needed if every case gets the same number of trials.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

LEVEL = 1 / 6

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def low_quantile(ordered: Floats, numbers: NDArray[np.int64] | None = None) -> Floats:
    """The quantile at `LEVEL` of values (…, N) that ascend along the last axis: x at rank LEVEL · (N + 1).

    Only the first `numbers` (…) of the values count, or all of them.

    It is the time of a case: the time below which one trial in six falls. It is not the minimum, because the minimum of
    more trials is lower. Two runs of different length could not be compared, and an interval around a moving number
    covers nothing. With up to five trials, the quantile is the fastest trial nevertheless.
    """
    number = np.broadcast_to(ordered.shape[-1] if numbers is None else numbers, ordered.shape[:-1])
    below, share = rank(number)
    lower, upper = (
        np.take_along_axis(ordered, (place - 1)[..., None], axis=-1)[..., 0]
        for place in (below, np.minimum(below + 1, number))
    )
    return np.where(share == 0, lower, (1 - share) * lower + share * upper)


def rank(number: Any) -> tuple[Any, Any]:
    """Position of the quantile among `number` values: the rank below it, and the fraction towards the next."""
    place = np.clip(LEVEL * (number + 1), 1.0, number)
    below = np.floor(place).astype(np.int64)
    return below, place - below


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


def lower_part_size(number: int) -> int:
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
    return _tail_factors(low_quantile(draws), draws[:, 0], draws[:, lower_part_size(number) - 1])


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

    k = lower_part_size(number)
    below, share = rank(number)
    steps = (1, below - 1, 1, k - below - 1, number + 1 - k)
    draws = np.random.default_rng(0)
    sums = np.cumsum([draws.standard_gamma(step, _DRAWS_OF_FOUR) for step in steps], axis=0)
    lowest, lower, upper, kth = ndtri(sums[:-1] / sums[-1])
    return _tail_factors((1 - share) * lower + share * upper, lowest, kth)


def _tail_factors(estimates: Floats, lowest: Floats, kth: Floats) -> tuple[float, float]:
    too_high = (estimates - NormalDist().inv_cdf(LEVEL)) / (kth - lowest)
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(too_high, 1 - tail)), max(0.0, -float(np.quantile(too_high, tail)))


# Factor that widens the interval to correct for stopping when it is narrow. It adds to the trials made after
# that (`CONFIRMATION`).
PEEKING_INFLATION = 1.02
# The exponential of a larger number overflows.
_MOST_LOG = math.log(np.finfo(float).max)


def log_distances_to_ends(ordered: Floats) -> tuple[Floats, Floats]:
    """Distances `(down, up)`, each (…), from the estimate to the ends of its 95 % confidence interval.

    On a logarithmic scale, they are the distance from the lowest to the k-th lowest trial, times `interval_factors`.
    The factors give a coverage of 95 in 100 under log-normal noise between trials. Only the lower part of the trials is
    used. Bursts and a second, slower cluster change the upper part, but not the position of the fast trials.

    `ordered` holds logarithms of times (…, N), N ≥ 2, ascending along the last axis.
    """
    number = ordered.shape[-1]
    down, up = interval_factors(number)
    distance = PEEKING_INFLATION * (ordered[..., lower_part_size(number) - 1] - ordered[..., 0])
    return down * distance, up * distance


def exp_or_inf(log: float) -> float:
    """e to the power `log`; infinite if that overflows."""
    return math.exp(log) if log < _MOST_LOG else math.inf


def half_widths(values: Iterable[float], least: int) -> Iterator[float]:
    """Yield the half-width of the interval, as a share, of the first one, two, three … values.

    It is infinite for one value, and for fewer than `least`.
    """
    ordered: list[float] = []
    for number, value in enumerate(values, start=1):
        bisect.insort(ordered, value)
        if number < max(2, least):
            yield math.inf
        else:
            distance = PEEKING_INFLATION * math.log(ordered[lower_part_size(number) - 1] / ordered[0])
            yield exp_or_inf(max(interval_factors(number)) * distance) - 1


# The probe time of a quiet machine stays within 10 % of its best. On a disturbed machine, it is at least 25 % above it.
QUIET_PROBE = 1.15


@dataclass(frozen=True)
class Trial:
    """The fastest and the median sample of a trial in seconds per call, its wall time, and its probe time, if any."""

    value_s: float
    median_s: float
    wall_s: float = 0.0
    probe_s: float | None = None


def best_probe(trials: Sequence[Trial]) -> float | None:
    """The best probe time of these trials, an estimate for the quiet machine; None without a probe."""
    return min((trial.probe_s for trial in trials if trial.probe_s is not None), default=None)


def are_quiet(trials: Sequence[Trial], best_probe_s: float | None) -> Flags:
    """Which trials were quiet (trials,): the machine ran at full speed, by `is_quiet`."""
    return is_quiet([trial.probe_s for trial in trials], best_probe_s)


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


def estimate(trials: Sequence[Trial], best_probe_s: float | None = None) -> Estimate:
    """Estimate the time of a case from its trials. Raises ValueError without trials.

    Disturbed trials (see `is_quiet`) do not count for the time if others exist: several of them may agree on a wrong
    time. The fastest trial always counts. The spread is that of all trials, so a disturbed machine widens the interval.

    A single trial says nothing about the spread between trials, so its interval is (0, ∞).
    """
    if not trials:
        raise ValueError("an estimate needs at least one trial")
    medians_s = [[trial.median_s for trial in trials]]
    values_s = [[trial.value_s for trial in trials]]
    return estimates(np.array(values_s), np.array(medians_s), are_quiet(trials, best_probe_s)[None])[0]


def counted(values_s: Floats, quiet: Flags) -> Flags:
    """Which trials count for the time (cases, trials): the fastest and the quiet ones. If no other is quiet, all do."""
    fastest = np.zeros(values_s.shape, dtype=bool)
    fastest[np.arange(len(values_s)), values_s.argmin(axis=1)] = True
    counting = quiet | fastest
    return counting | (counting.sum(axis=1) == 1)[:, None]


def estimates(values_s: Floats, medians_s: Floats, quiet: Flags) -> list[Estimate]:
    """Estimate many cases with the same number of trials, like `estimate`. All arrays are (cases, trials).

    They hold, for each trial, its fastest sample, the median of its samples, and whether it was quiet.
    """
    every = np.sort(values_s, axis=1)
    fastest = every[:, :1]
    counting = counted(values_s, quiet)
    ordered = np.sort(np.where(counting, values_s, np.inf), axis=1)
    # Relative to the fastest, so that an estimate equal to the fastest is exact to the last digit.
    lows = low_quantile(np.log(ordered / fastest), counting.sum(axis=1))
    single = np.full((2, len(every)), np.inf)
    down, up = log_distances_to_ends(np.log(every)) if values_s.shape[1] > 1 else single
    of_cases = zip(fastest[:, 0].tolist(), lows.tolist(), down, up, np.median(medians_s, axis=1).tolist(), strict=True)
    return [_estimate(*of_case) for of_case in of_cases]


def _estimate(fastest: float, low: float, down: float, up: float, middle: float) -> Estimate:
    """Build an estimate from log(time / fastest) and the distances down and up to the ends of its interval."""
    time_s = fastest * math.exp(low)
    return Estimate(time_s, time_s * math.exp(-float(down)), time_s * exp_or_inf(float(up)), middle)


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


def peeks(limits: Limits) -> bool:
    """Whether the number of trials depends on the measured values."""
    return limits.min_rounds < limits.max_rounds


def stop_reason(trials: Sequence[Trial], best_probe_s: float | None, limits: Limits) -> str | None:
    """The reason to stop, or None to continue.

    - The interval is as narrow as `target`, and already was with at most two thirds of the trials (`precise`). The
      second condition does not apply at the maximum number of trials, or if that number is fixed.
    - The interval is wider, and the case has the maximum number of trials (`max_rounds`).
    - The trials of the case have taken `case_s` (`time_limit`).

    A case with fewer than `LEAST_QUIET` quiet trials continues beyond `max_rounds`.
    """
    quiet = are_quiet(trials, best_probe_s).tolist()
    # Computed only where it can decide, because the driver asks after each trial.
    half_width = estimate(trials, best_probe_s).half_width if sum(quiet) >= max(1, limits.min_rounds) else math.inf
    wall_s = sum(trial.wall_s for trial in trials)
    return reason_of([trial.value_s for trial in trials], quiet, wall_s, half_width, limits)


def may_stop(trials: Sequence[Trial], best_probe_s: float | None, limits: Limits) -> bool:
    """Whether there is any reason to stop. This is faster than `stop_reason` for a case that has had all its rounds."""
    if len(trials) >= limits.max_rounds and are_quiet(trials, best_probe_s).sum() >= _least_quiet(limits):
        return True
    return stop_reason(trials, best_probe_s, limits) is not None


def reason_of(
    values_s: Sequence[float], quiet: Sequence[bool], wall_s: float, half_width: float, limits: Limits
) -> str | None:
    """The reason to stop, as in `stop_reason`, from the values and quiet flags of a case's trials, in order.

    The interval of all trials has the `half_width`, a share. The trials together took `wall_s`.
    """
    number, number_quiet = len(values_s), sum(quiet)
    if number and number_quiet >= limits.min_rounds and half_width <= limits.target:
        widths = zip(itertools.accumulate(quiet), half_widths(values_s, limits.min_rounds), strict=True)
        if confirmed((then >= limits.min_rounds and width <= limits.target for then, width in widths), number, limits):
            return "precise"
    if number >= limits.max_rounds and number_quiet >= _least_quiet(limits):
        return "max_rounds"
    return "time_limit" if number and wall_s >= limits.case_s else None


def _least_quiet(limits: Limits) -> int:
    return min(LEAST_QUIET, limits.max_rounds)


def confirmed(narrow: Iterable[bool], number: int, limits: Limits) -> bool:
    """Whether the interval, narrow after `number` trials, was narrow early enough for later ones to confirm it.

    `narrow` says whether the interval was narrow after one, two, three … trials. It is read no further than necessary,
    because each step may take a simulation.
    """
    if number >= limits.max_rounds or not peeks(limits):
        return True  # no more trials are due, so none can confirm it
    early_enough = itertools.takewhile(lambda early: _due(early, limits) <= number, itertools.count(1))
    return any(then for _, then in zip(early_enough, narrow, strict=False))


def fewest(limits: Limits) -> int:
    """The number of trials of a case whose interval is narrow from the start."""
    return _due(limits.min_rounds, limits)


def _due(first: int, limits: Limits) -> int:
    """How many trials a case needs if its interval was narrow after `first` trials."""
    return min(first + math.ceil(CONFIRMATION * first), limits.max_rounds) if peeks(limits) else first
