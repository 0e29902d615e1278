"""From which n on one cost is above another."""

import math
from collections.abc import Mapping


def crossover(cost: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """The n from which on `cost` stays above `other`, up to the largest n at which both are known.

    Between two measured n both costs are taken as straight lines on log-log paper. The smallest n if it
    is above everywhere; None if it is not above at the largest n, or no n is common to both.
    """
    sizes = sorted(cost.keys() & other.keys())
    gaps = [math.log(cost[n] / other[n]) for n in sizes]
    if not sizes or gaps[-1] <= 0:
        return None
    for i in range(len(sizes) - 2, -1, -1):
        if gaps[i] <= 0:
            share = -gaps[i] / (gaps[i + 1] - gaps[i])
            return math.exp(math.log(sizes[i]) + share * math.log(sizes[i + 1] / sizes[i]))
    return float(sizes[0])
