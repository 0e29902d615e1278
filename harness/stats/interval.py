"""The low quantile of a case's trials, and the ends of its 95 % confidence interval.

The ends are multiples of one distance: from the lowest to the k-th lowest trial, on a logarithmic scale. Only the lower
part of the trials is used. Bursts and a second, slower cluster change the upper part, but not the position of the fast
trials. `harness.stats.noise_prior` improves the multiples by the noise of a run's other cases.
"""

import bisect
import math
from collections.abc import Iterable, Iterator
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

LEVEL = 1 / 6
CONFIDENCE = 0.95
# Share of the trials that form the lower part; at least `LEAST_AGREEMENT` trials, or all if there are fewer.
LOWER_PART = 0.4
LEAST_AGREEMENT = 3
# Enough draws for factors accurate to 1 to 2 %. The factors of few trials vary most, and get the most draws.
_DRAWS = 600_000
_FEWEST_DRAWS = 20_000
# Above this number of trials, only the four of `_of_four` are drawn. It is more than twice the rounds of any precision
# in conf/ …
MOST_WHOLE = 128
_DRAWS_OF_FOUR = 100_000
# … and only at this many numbers of trials per factor of two. Log-log interpolation between them is accurate to within
# 0.2 %.
_NODES_AN_OCTAVE = 4
# Widens the interval, because a case stops when its interval is narrow. The trials that confirm this correct for the
# rest (`harness.stats.estimate.CONFIRMATION`).
PEEKING_INFLATION = 1.03
# The exponential of a larger number overflows.
_MOST_LOG = math.log(np.finfo(float).max)


# Fewer quiet trials than this do not count alone.
FEWEST_ALONE = 4


def count_alone(quiet: Any, number: int) -> Any:
    """Whether the `quiet` trials (…) of a `number` of trials count alone.

    There must be at least `FEWEST_ALONE` of them, and at least half of all trials.
    """
    return quiet >= max(FEWEST_ALONE, number / 2)


def low_quantile(ordered: Floats, numbers: Numbers | None = None) -> Floats:
    """The quantile at `LEVEL` of values (…, N) that ascend along the last axis: x at rank LEVEL · (N + 1).

    Only the first `numbers` (…) of the values count, or all of them.

    It is the time of a case: the time below which one trial in six falls. It is not the minimum, because the minimum of
    more trials is lower. Two runs of different length could not be compared, and an interval around a moving number
    covers nothing. With up to five trials, the quantile is the fastest trial nevertheless.
    """
    number = np.broadcast_to(ordered.shape[-1] if numbers is None else numbers, ordered.shape[:-1])
    below, share = rank(number)
    lower, upper = (_at_rank(ordered, place) for place in (below, np.minimum(below + 1, number)))
    return np.where(share == 0, lower, (1 - share) * lower + share * upper)


def rank(number: Any) -> tuple[Any, Any]:
    """Position of the quantile among `number` values: the rank below it, and the fraction towards the next."""
    place = np.clip(LEVEL * (number + 1), 1.0, number)
    below = np.floor(place).astype(np.int64)
    return below, place - below


def _at_rank(ordered: Floats, place: Any) -> Floats:
    return np.take_along_axis(ordered, (place - 1)[..., None], axis=-1)[..., 0]


def lower_part_size(number: Any) -> Any:
    """k: how many of `number` trials, the lowest ones, determine the interval."""
    least = np.ceil(LOWER_PART * np.asarray(number)).astype(np.int64)
    return np.minimum(number, np.maximum(LEAST_AGREEMENT, least))


def spread(ordered: Floats, numbers: Numbers | None = None) -> Floats:
    """The distance (…) from the lowest to the k-th lowest of the first `numbers` values (…, N), or of all of them."""
    number = np.broadcast_to(ordered.shape[-1] if numbers is None else numbers, ordered.shape[:-1])
    return _at_rank(ordered, lower_part_size(number)) - ordered[..., 0]


@cache
def interval_factors(number: int) -> tuple[float, float]:
    """Distances `(down, up)` from the estimate, in units of x_k − x₁, for sorted normal x₁ … x_number.

    An interval that reaches so far contains the low quantile 95 times in 100 if trials differ by log-normal noise. The
    distances have no closed form, so they are simulated, with a fixed seed. A single trial has none: they are infinite.
    """
    if number == 1:
        return math.inf, math.inf
    if number <= MOST_WHOLE:
        return _whole(number)
    place = _NODES_AN_OCTAVE * math.log2(number / MOST_WHOLE)
    node = math.floor(place)
    (down, up), (next_down, next_up) = _of_node(node), _of_node(node + 1)
    share = place - node
    return down ** (1 - share) * next_down**share, up ** (1 - share) * next_up**share


@cache
def simulated(number: int) -> tuple[Floats, Floats]:
    """How far the low quantile of `number` normal trials lies above the true one, and their spread, in many draws.

    Both are in units of the standard deviation of the noise. The number is at least 2.
    """
    draws = np.sort(np.random.default_rng(0).standard_normal((max(_FEWEST_DRAWS, _DRAWS // number**2), number)), axis=1)
    return low_quantile(draws) - NormalDist().inv_cdf(LEVEL), spread(draws)


def _whole(number: int) -> tuple[float, float]:
    """Factors simulated with all trials."""
    return _tail_factors(*simulated(number))


@cache
def _of_node(node: int) -> tuple[float, float]:
    return _of_four(round(MOST_WHOLE * 2 ** (node / _NODES_AN_OCTAVE)))


def _of_four(number: int) -> tuple[float, float]:
    """Factors simulated with the lowest trial, the two around the quantile, and the k-th.

    Only these four determine the interval. They can be drawn alone, because the order statistics of uniform numbers are
    partial sums of independent exponential numbers, divided by the total (Rényi 1953). The cost then does not grow with
    the number of trials.
    """
    from scipy.special import ndtri  # imported here: it takes 0.1 s, and few runs need it

    k = int(lower_part_size(number))
    below, share = rank(number)
    steps = (1, below - 1, 1, k - below - 1, number + 1 - k)
    draws = np.random.default_rng(0)
    sums = np.cumsum([draws.standard_gamma(step, _DRAWS_OF_FOUR) for step in steps], axis=0)
    lowest, lower, upper, kth = ndtri(sums[:-1] / sums[-1])
    return _tail_factors((1 - share) * lower + share * upper - NormalDist().inv_cdf(LEVEL), kth - lowest)


def _tail_factors(too_high: Floats, spreads: Floats) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    up, down = np.quantile(too_high / spreads, (tail, 1 - tail))
    return float(down), max(0.0, -float(up))


def log_distances_to_ends(spreads: Floats, numbers: Numbers) -> tuple[Floats, Floats]:
    """Distances `(down, up)` from the log of the estimate to the ends of its 95 % interval, each (cases,).

    They are the `spread` of each case's log times, times `interval_factors` for its number of trials.
    """
    factors = np.ones((2, len(spreads)))
    for number in np.unique(numbers).tolist():
        factors[:, numbers == number] = np.reshape(interval_factors(number), (2, 1))
    # Without an interval, both distances are infinite whatever the spread.
    down, up = factors * np.where(numbers > 1, PEEKING_INFLATION * spreads, 1.0)
    return down, up


def exp_or_inf(log: float) -> float:
    """e to the power `log`; infinite if that overflows."""
    return math.exp(log) if log < _MOST_LOG else math.inf


def half_widths(values: Iterable[float], quiet: Iterable[bool], least: int) -> Iterator[float]:
    """Yield the half-width of the interval, as a share, of the first one, two, three … values.

    Only those of quiet trials count if `count_alone` says so. The half-width is infinite for one value, and for fewer
    than `least`.
    """
    every: list[float] = []
    of_quiet: list[float] = []
    for number, (value, is_quiet) in enumerate(zip(values, quiet, strict=True), start=1):
        for ordered in (every, *([of_quiet] if is_quiet else [])):
            bisect.insort(ordered, value)
        if number < max(2, least):
            yield math.inf
        else:
            ordered = of_quiet if count_alone(len(of_quiet), number) else every
            k = int(lower_part_size(len(ordered)))
            distance = PEEKING_INFLATION * math.log(ordered[k - 1] / ordered[0])
            yield exp_or_inf(max(interval_factors(len(ordered))) * distance) - 1
