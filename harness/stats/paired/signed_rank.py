"""The signed-rank test and its interval, exact: Wilcoxon 1945, "Individual comparisons by ranking methods".

Of what a block says nothing is assumed but that it is as likely to lie above the truth as below it, by the same
amounts. That holds of log(B's time / A's time) where the order of the sides within a block is drawn at random, however
the machine's noise looks: with two levels, bursts and drifts a t-test would need many more blocks to be trusted.

The statistic is the number of Walsh averages, (xᵢ + xⱼ)/2 with i ≤ j, above a value; the middle one of them is the
Hodges–Lehmann estimate: Hollander, Wolfe and Chicken 2014, "Nonparametric statistical methods", 3.1 to 3.3.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def walsh(values: Sequence[float]) -> Floats:
    """All averages of two of the values, each with itself too, in ascending order: N(N + 1)/2 of them."""
    x = np.asarray(values, dtype=float)
    i, j = _pairs(len(x))
    return np.sort((x[i] + x[j]) / 2)


def p_above(averages: Floats, value: float) -> float:
    """How likely so many Walsh averages above `value` are, or more, where the truth is no more than `value`.

    Averages that are `value` exactly count as none above it.
    """
    above = len(averages) - int(np.searchsorted(averages, value, side="right"))
    return float(_tails(_number(averages))[above])


def p_below(averages: Floats, value: float) -> float:
    """The same of averages below it, where the truth is no less."""
    return float(_tails(_number(averages))[int(np.searchsorted(averages, value, side="left"))])


def location(averages: Floats) -> float:
    """The Hodges–Lehmann estimate of the middle."""
    middle = len(averages) // 2  # they are sorted
    return float(averages[~middle] + averages[middle]) / 2


def interval(averages: Floats, alpha: float) -> tuple[float, float]:
    """Between what the truth lies with a confidence of at least 1 − `alpha`; infinite where the blocks are too few."""
    tails = _tails(_number(averages))
    # The largest number of averages that may lie outside on one side.
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
    """P(W ≥ w) for w from 0 to N(N + 1)/2, where each rank counts or not with a half: sums of subsets of 1 … N."""
    counts = np.ones(1)
    for rank in range(1, number + 1):
        counts = np.concatenate([counts, np.zeros(rank)]) + np.concatenate([np.zeros(rank), counts])
    return np.minimum(np.cumsum(counts[::-1])[::-1] / 2.0**number, 1.0)
