"""A low quantile of what trials give, and an interval for it, from few trials.

The quantity: `LEVEL`, the time below which one trial in six falls. A fixed quantile, and not the minimum, because
the minimum of more trials is lower: two runs of different length could not be compared, and an interval
around a moving number covers nothing. Up to five trials the estimate is the fastest of them all the same.

The interval, on a logarithmic scale: so many times the distance between the lowest and the k-th lowest trial,
down and up, that it holds the quantile 95 times in 100 where trials differ by log-normal noise. The multiples
come from simulation, always the same one, since there is no closed form. Only the lower part of the trials has a
say: bursts and a second, slower hump change what lies above, and not where the fast trials are.

Vectorised over leading axes, so that its coverage can be simulated: `tests/stats/test_coverage.py`.
"""

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
LEVEL = 1 / 6
# The lower part of the trials, and of three or fewer all of them.
LOWER_PART = 0.4
LEAST_AGREEING = 3
# What stopping at a narrow interval costs beyond the trials added after it (see `stopping`).
LOOKING = 1.02
# Enough for the multiples to be right within 1 to 2 %: those of few trials vary most.
_DRAWS = 600_000
_FEWEST_DRAWS = 20_000

Logs = NDArray[np.float64]


def low_quantile(ordered: Logs) -> Logs:
    """The quantile at `LEVEL` of each (…, N), ascending along the last axis, as x at rank LEVEL · (N + 1)."""
    number = ordered.shape[-1]
    rank = min(max(LEVEL * (number + 1), 1.0), float(number))
    below = math.floor(rank)
    share = rank - below
    lower = ordered[..., below - 1]
    return lower if share == 0 else (1 - share) * lower + share * ordered[..., below]


def reach(ordered: Logs) -> tuple[Logs, Logs]:
    """How far the interval reaches `(down, up)` from the estimate, each (…), of logarithms of times (…, N), N ≥ 2.

    Ascending along the last axis.
    """
    number = ordered.shape[-1]
    k = min(number, max(LEAST_AGREEING, math.ceil(LOWER_PART * number)))
    down, up = _multiples(number, k)
    distance = LOOKING * (ordered[..., k - 1] - ordered[..., 0])
    return down * distance, up * distance


@cache
def _multiples(number: int, k: int) -> tuple[float, float]:
    """How far down and up to go from the estimate, in units of x_k − x₁, of sorted normal x₁ … x_number."""
    draws = np.sort(np.random.default_rng(0).standard_normal((max(_FEWEST_DRAWS, _DRAWS // number**2), number)), axis=1)
    too_high = (low_quantile(draws) - NormalDist().inv_cdf(LEVEL)) / (draws[:, k - 1] - draws[:, 0])
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(too_high, 1 - tail)), max(0.0, -float(np.quantile(too_high, tail)))
