"""How a cost grows with n: the slope of log cost against log n.

One slope over the whole range is not the whole story: with its projections in, attention costs
8nd² + 4n²d and bends from slope 1 to slope 2 around n = 2d. So the slope between the two smallest and
between the two largest n stand beside it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Point:
    """A cost at a size, with the interval it is known in; for an exact cost all three are one."""

    size: float
    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Slope:
    """A slope and its interval."""

    slope: float
    lo: float
    hi: float


def fitted_slope(points: Sequence[Point]) -> Slope:
    """Least squares over all points; the interval, from the residuals, is as wide as the line is wrong.

    Raises ValueError for fewer than two sizes. With two there are no residuals: it is `slope_between`.
    """
    if len(points) < 2:
        raise ValueError("a slope needs at least two sizes")
    if len(points) == 2:
        return slope_between(points[0], points[1])
    from scipy.stats import t as student  # here: it takes half a second to import

    x = np.log([p.size for p in points])
    y = np.log([p.value for p in points])
    x_spread = x - x.mean()
    slope = float(x_spread @ y / (x_spread @ x_spread))
    residuals = y - y.mean() - slope * x_spread
    freedom = len(points) - 2
    error = math.sqrt(float(residuals @ residuals) / freedom / float(x_spread @ x_spread))
    reach = float(student.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Slope(slope, slope - reach, slope + reach)


def slope_between(small: Point, large: Point) -> Slope:
    """The slope from one point to the next; its interval is the widest that the points' intervals allow."""
    run = math.log(large.size / small.size)
    return Slope(
        math.log(large.value / small.value) / run,
        math.log(large.lo / small.hi) / run if large.lo > 0 and small.hi < math.inf else -math.inf,
        math.log(large.hi / small.lo) / run if small.lo > 0 else math.inf,
    )
