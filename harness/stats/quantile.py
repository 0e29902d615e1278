"""The low quantile that a case's time is: the time below which one trial in six falls.

A fixed quantile, and not the minimum, because the minimum of more trials is lower: two runs of different length could
not be compared, and an interval around a moving number covers nothing. Up to five trials the estimate is the fastest
of them all the same.

Vectorised over leading axes.
"""

import math

import numpy as np
from numpy.typing import NDArray

LEVEL = 1 / 6

Floats = NDArray[np.float64]


def low_quantile(ordered: Floats) -> Floats:
    """The quantile at `LEVEL` of each (…, N), ascending along the last axis, as x at rank LEVEL · (N + 1)."""
    below, share = rank(ordered.shape[-1])
    lower = ordered[..., below - 1]
    return lower if share == 0 else (1 - share) * lower + share * ordered[..., below]


def rank(number: int) -> tuple[int, float]:
    """Between which of `number` values the quantile lies: how many are below it, and its share of the way beyond."""
    place = min(max(LEVEL * (number + 1), 1.0), float(number))
    below = math.floor(place)
    return below, place - below


def low_quantile_of(ordered: Floats, numbers: NDArray[np.int64]) -> Floats:
    """The same, of the first `numbers` (…) of each (…, N), which alone are known."""
    place = np.clip(LEVEL * (numbers + 1), 1.0, numbers)
    below = np.floor(place).astype(np.int64)
    share = place - below
    lower = np.take_along_axis(ordered, (below - 1)[..., None], axis=-1)[..., 0]
    upper = np.take_along_axis(ordered, np.minimum(below, numbers - 1)[..., None], axis=-1)[..., 0]
    return np.where(share == 0, lower, (1 - share) * lower + share * upper)
