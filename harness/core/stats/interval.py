"""The low quantile of a case's trials, and the ends of its 95 % confidence interval.

Few trials cannot show their own distribution. The ends are then multiples of one distance: from the lowest to the k-th
lowest trial, on a logarithmic scale. The multiples hold for log-normal noise. `stats.noise_prior` improves them
by the noise of a run's other cases.

From `FEWEST_FREE` trials on, the ends lie between order statistics, and hold for any noise.

Either way, only the lower part of the trials is used. Bursts and a second, slower cluster change the upper part, but
not the position of the fast trials.
"""

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import inf
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

LEVEL = 1 / 6
CONFIDENCE = 0.95
# A 95 % interval of normal noise ends this many standard errors to each side.
NORMAL = 1.96
# Share of the trials that form the lower part; at least `LEAST_AGREEMENT` trials, or all if there are fewer.
LOWER_PART = 0.4
LEAST_AGREEMENT = 3
# With fewer trials, more than one case in forty has all of its trials above the quantile: (1 − LEVEL)^20 = 2.6 %.
FEWEST_FREE = 21
# Enough draws for factors accurate to 1 to 2 %. The factors of few trials vary most, and get the most draws.
_DRAWS = 600_000
_FEWEST_DRAWS = 20_000
# Widens the interval, because a case stops when its interval is narrow. The trials that confirm this correct for the
# rest (`harness.core.stats.estimate.CONFIRMATION`).
PEEKING_INFLATION = 1.03
# The exponential of a larger number overflows.
_MOST_LOG = math.log(np.finfo(float).max)


# Two or three quiet trials may agree by chance, so fewer than this do not suffice.
FEWEST_SUFFICIENT = 4


def suffice(quiet: Any, number: int) -> Any:
    """Whether the `quiet` trials (…) of a `number` of trials suffice, so that no others count.

    There must be at least `FEWEST_SUFFICIENT` of them, and at least half of all trials.
    """
    return quiet >= max(FEWEST_SUFFICIENT, number / 2)


def low_quantile(ordered: Floats, numbers: Numbers | None = None) -> Floats:
    """The quantile at `LEVEL` of values (…, N) that ascend along the last axis: x at rank LEVEL · (N + 1).

    Only the first `numbers` (…) of the values count, or all of them.

    It is the time of a case: the time below which one trial in six falls. It is not the minimum, because the minimum of
    more trials is lower. Two runs of different length could not be compared, and an interval around a moving number
    covers nothing. With up to five trials, the quantile is the fastest trial nevertheless.
    """
    number = _numbers_of(ordered, numbers)
    return _at_rank(ordered, np.clip(LEVEL * (number + 1), 1.0, number))


def _numbers_of(ordered: Floats, numbers: Numbers | None) -> Numbers:
    return np.broadcast_to(ordered.shape[-1] if numbers is None else numbers, ordered.shape[:-1])


def _at_rank(ordered: Floats, place: Any) -> Floats:
    """The value at each rank (…), from 1 on. Between two ranks, it is interpolated."""
    below, above = np.floor(place), np.ceil(place)
    lower, upper = (
        np.take_along_axis(ordered, (rank.astype(np.int64) - 1)[..., None], axis=-1)[..., 0] for rank in (below, above)
    )
    return (1 - (place - below)) * lower + (place - below) * upper


def lower_part_size(number: Any) -> Any:
    """k: how many of `number` trials, the lowest ones, determine the interval."""
    least = np.ceil(LOWER_PART * np.asarray(number)).astype(np.int64)
    return np.minimum(number, np.maximum(LEAST_AGREEMENT, least))


def spread(ordered: Floats, numbers: Numbers | None = None) -> Floats:
    """The distance (…) from the lowest to the k-th lowest of the first `numbers` values (…, N), or of all of them."""
    return _at_rank(ordered, lower_part_size(_numbers_of(ordered, numbers))) - ordered[..., 0]


@cache
def end_ranks(number: int) -> tuple[float, float]:
    """The ranks of the lower and the upper end of the interval, among at least `FEWEST_FREE` trials.

    The number of trials below the quantile is binomial, whatever the noise (David and Nagaraja 2003, "Order
    Statistics", section 7.1). Each end is missed in about 2.5 % of cases. Between two ranks, the probability to miss
    is interpolated.
    """
    from scipy.stats import binom  # imported here: it takes 0.2 s, and only many trials need it

    tail = (1 - CONFIDENCE) / 2
    ranks = np.arange(number + 1)
    above, below = binom.cdf(ranks - 1, number, LEVEL), binom.sf(ranks - 1, number, LEVEL)
    return float(np.interp(tail, above, ranks)), float(np.interp(-tail, -below, ranks))


@cache
def interval_factors(number: int) -> tuple[float, float]:
    """Distances `(down, up)` from the estimate, in units of x_k − x₁, for sorted normal x₁ … x_number.

    An interval that reaches so far contains the low quantile 95 times in 100 if trials differ by log-normal noise. The
    distances have no closed form, so they are simulated, with a fixed seed. A single trial has none: they are infinite.
    """
    if number == 1:
        return inf, inf
    too_high, spreads = simulated(number)
    tail = (1 - CONFIDENCE) / 2
    up, down = np.quantile(too_high / spreads, (tail, 1 - tail))
    return float(down), max(0.0, -float(up))


@cache
def simulated(number: int) -> tuple[Floats, Floats]:
    """How far the low quantile of `number` normal trials lies above the true one, and their spread, in many draws.

    Both are in units of the standard deviation of the noise. The number is at least 2.
    """
    draws = np.sort(np.random.default_rng(0).standard_normal((max(_FEWEST_DRAWS, _DRAWS // number**2), number)), axis=1)
    return low_quantile(draws) - NormalDist().inv_cdf(LEVEL), spread(draws)


def log_distances_to_ends(ordered: Floats, numbers: Numbers | None = None) -> Floats:
    """Distances down and up from the low quantile to the ends of the 95 % interval (2, cases).

    The log times (cases, N) ascend along the last axis. Only the first `numbers` (cases,) of them count, or all.
    """
    number = _numbers_of(ordered, numbers)
    distances = np.full((2, len(ordered)), np.inf)
    spreads, value = spread(ordered, number), low_quantile(ordered, number)
    for each in np.unique(number[number > 1]).tolist():
        here = number == each
        if each < FEWEST_FREE:
            distances[:, here] = PEEKING_INFLATION * np.outer(interval_factors(each), spreads[here])
        else:
            lo, hi = (_at_rank(ordered[here], np.full(here.sum(), rank)) for rank in end_ranks(each))
            distances[:, here] = PEEKING_INFLATION * np.array([value[here] - lo, hi - value[here]])
    return distances


def exp_or_inf(log: float) -> float:
    """e to the power `log`; infinite if that overflows."""
    return math.exp(log) if log < _MOST_LOG else inf


def half_widths(values: Iterable[float], quiet: Iterable[bool], least: int) -> Iterator[float]:
    """Yield the half-width of the interval, as a share, of the first one, two, three … values.

    Only those of quiet trials count if `suffice` says so. The half-width is infinite for one value, and for fewer
    than `least`.
    """
    every, of_quiet = list[float](), list[float]()
    for number, (value, is_quiet) in enumerate(zip(values, quiet, strict=True), start=1):
        for ordered in (every, *([of_quiet] if is_quiet else [])):
            bisect.insort(ordered, value)
        if number < max(2, least):
            yield inf
        else:
            ordered = of_quiet if suffice(len(of_quiet), number) else every
            yield exp_or_inf(_farther_end(ordered)) - 1


def _farther_end(ordered: Sequence[float]) -> float:
    """The log distance from the low quantile of ascending times to the farther end of the interval."""
    number = len(ordered)
    if number < FEWEST_FREE:
        k = int(lower_part_size(number))
        return PEEKING_INFLATION * max(interval_factors(number)) * math.log(ordered[k - 1] / ordered[0])
    logs = np.log(np.array(ordered) / ordered[0])[None]
    return float(np.max(log_distances_to_ends(logs)))
