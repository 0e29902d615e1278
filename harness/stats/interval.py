"""A 95 % confidence interval for the low quantile of the trial values, from few trials.

On a logarithmic scale, the interval reaches down and up by multiples of one distance. That is the distance from the
lowest to the k-th lowest trial. The multiples (`multiples`) give a coverage of 95 in 100 under log-normal noise between
trials. Only the lower part of the trials is used. Bursts and a second, slower cluster change the upper part, but not
the position of the fast trials.

The functions are vectorised over leading axes. This allows simulating the coverage (`tests/stats/test_coverage.py`),
and estimating all cases of a large run at once.
"""

import heapq
import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from harness.stats.multiples import agreeing, multiples

# Factor that widens the interval to correct for stopping when it is narrow. It adds to the trials made after that
# (see `stopping`).
LOOKING = 1.02
# The exponential of a larger number overflows.
_MOST_LOG = math.log(np.finfo(float).max)

Logs = NDArray[np.float64]


def reach(ordered: Logs) -> tuple[Logs, Logs]:
    """Distances `(down, up)`, each (…), from the estimate to the ends of the interval.

    `ordered` holds logarithms of times (…, N), N ≥ 2, ascending along the last axis.
    """
    number = ordered.shape[-1]
    down, up = multiples(number)
    distance = LOOKING * (ordered[..., agreeing(number) - 1] - ordered[..., 0])
    return down * distance, up * distance


def grown(log: float) -> float:
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
        while len(lower) < agreeing(number):
            heapq.heappush(lower, -heapq.heappop(upper))
        if number < max(2, least):
            yield math.inf
        else:
            distance = LOOKING * math.log(-lower[0] / lowest)
            yield grown(max(multiples(number)) * distance) - 1
