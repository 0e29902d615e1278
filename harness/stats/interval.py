"""An interval for the low quantile of what trials give, from few trials.

On a logarithmic scale: so many times the distance between the lowest and the k-th lowest trial, down and up, that it
holds the quantile 95 times in 100 where trials differ by log-normal noise (`multiples`). Only the lower part of the
trials has a say: bursts and a second, slower hump change what lies above, and not where the fast trials are.

Vectorised over leading axes: so its coverage can be simulated (`tests/stats/test_coverage.py`), and so are all cases
of a large run estimated at once.
"""

import heapq
import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from harness.stats.multiples import agreeing, multiples

# What stopping at a narrow interval costs beyond the trials added after it (see `stopping`).
LOOKING = 1.02
# Beyond it, e to it is no number any more.
_MOST_LOG = math.log(np.finfo(float).max)

Logs = NDArray[np.float64]


def reach(ordered: Logs) -> tuple[Logs, Logs]:
    """How far the interval reaches `(down, up)` from the estimate, each (…), of logarithms of times (…, N), N ≥ 2.

    Ascending along the last axis.
    """
    number = ordered.shape[-1]
    down, up = multiples(number)
    distance = LOOKING * (ordered[..., agreeing(number) - 1] - ordered[..., 0])
    return down * distance, up * distance


def grown(log: float) -> float:
    """e to the `log`, infinite where that is no number."""
    return math.exp(log) if log < _MOST_LOG else math.inf


def half_widths(values: Iterable[float], least: int) -> Iterator[float]:
    """How far the interval of the first one, two, three … values reaches, as a share.

    Infinite of one value and of fewer than `least`. In n · log n steps for n values.
    """
    # The k lowest so far, negated, so that the highest of them comes first; and the others, lowest first.
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
