"""The exact signed-rank test and its interval: Wilcoxon 1945, "Individual comparisons by ranking methods".

The only assumption is that the value of a block is distributed symmetrically about the true value. It holds for
log(B's time / A's time), under any noise, if the order of the sides within a block is random. If noise has two levels,
bursts and drifts, a t-test needs many more blocks to be reliable.

The statistic is the number of Walsh averages, (xᵢ + xⱼ)/2 with i ≤ j, above a value. Their median is the Hodges–Lehmann
estimate: Hollander, Wolfe and Chicken 2014, "Nonparametric statistical methods", 3.1 to 3.3.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def walsh(values: Sequence[float]) -> Floats:
    """The N(N + 1)/2 averages of pairs of values, including each value with itself, in ascending order."""
    x = np.asarray(values, dtype=float)
    i, j = _pairs(len(x))
    return np.sort((x[i] + x[j]) / 2)


def p_above(averages: Floats, value: float) -> float:
    """The p-value of the hypothesis that the true value is at most `value`, from the Walsh averages above it.

    Averages equal to `value` do not count as above.
    """
    above = len(averages) - int(np.searchsorted(averages, value, side="right"))
    return float(_tails(_number(averages))[above])


def p_below(averages: Floats, value: float) -> float:
    """The p-value of the hypothesis that the true value is at least `value`, from the Walsh averages below it."""
    return float(_tails(_number(averages))[int(np.searchsorted(averages, value, side="left"))])


def location(averages: Floats) -> float:
    """The Hodges–Lehmann estimate of the centre: the median of the Walsh averages."""
    middle = len(averages) // 2  # the averages are sorted
    return float(averages[~middle] + averages[middle]) / 2


def interval(averages: Floats, alpha: float) -> tuple[float, float]:
    """A confidence interval for the true value at level 1 − `alpha` or higher; infinite with too few blocks."""
    tails = _tails(_number(averages))
    # The largest number of averages that may lie outside the interval on one side.
    outside = len(averages) - int(np.argmax(tails <= alpha / 2)) if tails[-1] <= alpha / 2 else -1
    if outside < 0:
        return -math.inf, math.inf
    return float(averages[outside]), float(averages[-1 - outside])


def _number(averages: Floats) -> int:
    return round((math.sqrt(8 * len(averages) + 1) - 1) / 2)


@lru_cache
def _pairs(number: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(number)


@lru_cache
def _tails(number: int) -> Floats:
    """P(W ≥ w) for w from 0 to N(N + 1)/2, where W is the sum of a random subset of the ranks 1 … N.

    Each rank is in the subset with probability ½.
    """
    counts = np.ones(1)
    for rank in range(1, number + 1):
        counts = np.concatenate([counts, np.zeros(rank)]) + np.concatenate([np.zeros(rank), counts])
    return np.minimum(np.cumsum(counts[::-1])[::-1] / 2.0**number, 1.0)
