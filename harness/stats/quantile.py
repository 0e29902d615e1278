"""The low quantile used as the time of a case: the time below which one trial in six falls.

It is a fixed quantile and not the minimum, because the minimum of more trials is lower. Two runs of different length
could not be compared, and an interval around a moving number covers nothing. With up to five trials, the estimate is
the fastest trial nevertheless.

The functions are vectorised over leading axes.
"""

import math

import numpy as np
from numpy.typing import NDArray

LEVEL = 1 / 6

Floats = NDArray[np.float64]


def low_quantile(ordered: Floats) -> Floats:
    """The quantile at `LEVEL` of values (…, N) that ascend along the last axis: x at rank LEVEL · (N + 1)."""
    below, share = rank(ordered.shape[-1])
    lower = ordered[..., below - 1]
    return lower if share == 0 else (1 - share) * lower + share * ordered[..., below]


def rank(number: int) -> tuple[int, float]:
    """Position of the quantile among `number` values: the rank below it, and the fraction towards the next."""
    place = min(max(LEVEL * (number + 1), 1.0), float(number))
    below = math.floor(place)
    return below, place - below


def low_quantile_of(ordered: Floats, numbers: NDArray[np.int64]) -> Floats:
    """Quantile as by `low_quantile`, of only the first `numbers` (…) of the values (…, N)."""
    place = np.clip(LEVEL * (numbers + 1), 1.0, numbers)
    below = np.floor(place).astype(np.int64)
    share = place - below
    lower = np.take_along_axis(ordered, (below - 1)[..., None], axis=-1)[..., 0]
    upper = np.take_along_axis(ordered, np.minimum(below, numbers - 1)[..., None], axis=-1)[..., 0]
    return np.where(share == 0, lower, (1 - share) * lower + share * upper)
