"""How far an interval must reach, in units of the distance between the lowest and the k-th lowest trial.

The interval contains the low quantile 95 times in 100 if trials differ by log-normal noise. The distances have no
closed form, so they are simulated, with a fixed seed.

Only four trials determine the interval. For a large number of trials, only these four are drawn. This is possible
because the order statistics of uniform numbers are partial sums of independent exponential numbers, divided by the
total (Rényi 1953). The cost then does not grow with the number of trials.
"""

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from harness.stats.quantile import LEVEL, low_quantile, rank

CONFIDENCE = 0.95
# Share of the trials that form the lower part; at least `LEAST_AGREEING` trials, or all if there are fewer.
LOWER_PART = 0.4
LEAST_AGREEING = 3
# Enough draws for multiples accurate to 1 to 2 %. The multiples of few trials vary most, and get the most draws.
_DRAWS = 600_000
_FEWEST_DRAWS = 20_000
# Above this number of trials, only the four are drawn. It is more than twice the rounds of any precision in conf/ …
_MOST_WHOLE = 128
_DRAWS_OF_FOUR = 100_000
# … and only at this many numbers of trials per factor of two. Log-log interpolation between them is accurate to within
# 0.2 %.
_NODES_AN_OCTAVE = 4


def agreeing(number: int) -> int:
    """k: how many of `number` trials, the lowest ones, determine the interval."""
    return min(number, max(LEAST_AGREEING, math.ceil(LOWER_PART * number)))


@cache
def multiples(number: int) -> tuple[float, float]:
    """Distances `(down, up)` from the estimate, in units of x_k − x₁, for sorted normal x₁ … x_number."""
    if number <= _MOST_WHOLE:
        return _whole(number)
    place = _NODES_AN_OCTAVE * math.log2(number / _MOST_WHOLE)
    node = math.floor(place)
    (down, up), (next_down, next_up) = _of_node(node), _of_node(node + 1)
    share = place - node
    return down ** (1 - share) * next_down**share, up ** (1 - share) * next_up**share


def _whole(number: int) -> tuple[float, float]:
    """Multiples simulated with all trials."""
    draws = np.sort(np.random.default_rng(0).standard_normal((max(_FEWEST_DRAWS, _DRAWS // number**2), number)), axis=1)
    return _tails(low_quantile(draws), draws[:, 0], draws[:, agreeing(number) - 1])


@cache
def _of_node(node: int) -> tuple[float, float]:
    return _of_four(round(_MOST_WHOLE * 2 ** (node / _NODES_AN_OCTAVE)))


def _of_four(number: int) -> tuple[float, float]:
    """Multiples simulated with the lowest trial, the two around the quantile, and the k-th."""
    from scipy.special import ndtri  # imported here: it takes 0.1 s, and few runs need it

    k = agreeing(number)
    below, share = rank(number)
    steps = (1, below - 1, 1, k - below - 1, number + 1 - k)
    draws = np.random.default_rng(0)
    sums = np.cumsum([draws.standard_gamma(step, _DRAWS_OF_FOUR) for step in steps], axis=0)
    lowest, lower, upper, kth = ndtri(sums[:-1] / sums[-1])
    return _tails((1 - share) * lower + share * upper, lowest, kth)


def _tails(
    estimates: NDArray[np.float64], lowest: NDArray[np.float64], kth: NDArray[np.float64]
) -> tuple[float, float]:
    too_high = (estimates - NormalDist().inv_cdf(LEVEL)) / (kth - lowest)
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(too_high, 1 - tail)), max(0.0, -float(np.quantile(too_high, tail)))
