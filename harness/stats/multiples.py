"""How far an interval must reach, in units of the distance between the lowest and the k-th lowest trial.

So far that it holds the low quantile 95 times in 100 where trials differ by log-normal noise. There is no closed form,
so it is simulated, always alike. Of very many trials only four have a say, and only these are drawn: the order
statistics of uniform numbers are sums of independent exponential ones over the sum of all (Rényi 1953), so that the
cost does not grow with the number of trials.
"""

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from harness.stats.quantile import LEVEL, low_quantile, rank

CONFIDENCE = 0.95
# The lower part of the trials, and of three or fewer all of them.
LOWER_PART = 0.4
LEAST_AGREEING = 3
# Enough for the multiples to be right within 1 to 2 %: those of few trials vary most.
_DRAWS = 600_000
_FEWEST_DRAWS = 20_000
# Beyond so many trials, more than twice the rounds that any precision in conf/ allows, only the four are drawn …
_MOST_WHOLE = 128
_DRAWS_OF_FOUR = 100_000
# … and only for so many numbers of trials from one to its double: between them the multiples are straight lines on
# log-log paper, to within 0.2 %.
_NODES_AN_OCTAVE = 4


def agreeing(number: int) -> int:
    """k: how many of so many trials make the interval."""
    return min(number, max(LEAST_AGREEING, math.ceil(LOWER_PART * number)))


@cache
def multiples(number: int) -> tuple[float, float]:
    """How far `(down, up)` to go from the estimate, in units of x_k − x₁, of sorted normal x₁ … x_number."""
    if number <= _MOST_WHOLE:
        return _whole(number)
    place = _NODES_AN_OCTAVE * math.log2(number / _MOST_WHOLE)
    node = math.floor(place)
    (down, up), (next_down, next_up) = _of_node(node), _of_node(node + 1)
    share = place - node
    return down ** (1 - share) * next_down**share, up ** (1 - share) * next_up**share


def _whole(number: int) -> tuple[float, float]:
    """From all the trials."""
    draws = np.sort(np.random.default_rng(0).standard_normal((max(_FEWEST_DRAWS, _DRAWS // number**2), number)), axis=1)
    return _tails(low_quantile(draws), draws[:, 0], draws[:, agreeing(number) - 1])


@cache
def _of_node(node: int) -> tuple[float, float]:
    return _of_four(round(_MOST_WHOLE * 2 ** (node / _NODES_AN_OCTAVE)))


def _of_four(number: int) -> tuple[float, float]:
    """From the lowest trial, the two about the quantile, and the k-th."""
    from scipy.special import ndtri  # here: it takes a tenth of a second to import, and few runs need it

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
