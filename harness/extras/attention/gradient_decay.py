"""How fast a quantity fades with distance: a straight line through its logarithm.

    log y(k) = a + k · log r,   k = 1, 2, …

Each step keeps the share `r`. One line is fitted for each seed, by least squares. The interval is computed over seeds,
because their lines are independent and the points of one line are not. Distance 0 is left out: a position reaches
itself by other paths. Numbers in, numbers out.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from harness.core.stats.interval import CONFIDENCE, Floats

# Smaller float64 values lose digits before they become 0, so they are no longer measurements.
FLOOR = 1e-290
# With fewer points, the fit cannot show whether they lie on a line.
_LEAST_POINTS = 4
# Two rates count as equal if their logarithms differ by less than this share of the larger one.
_ALIKE = 0.2


@dataclass(frozen=True)
class Rate:
    """The share that each step keeps, with its 95 % interval over seeds. With one seed the interval is unbounded."""

    value: float
    lo: float
    hi: float

    @property
    def half_distance(self) -> float:
        """The number of steps after which a half is left; infinite if nothing is lost."""
        return math.log(0.5) / math.log(self.value) if self.value < 1 else math.inf


@dataclass(frozen=True)
class Decay:
    """The `rate` over distances 1 to `fitted`, and the rates `near` and `far` of the two halves of this range.

    All three rates are None if there are too few distances. The farthest distance with a value above 0 is `reach`;
    `ends` says whether farther distances exist. If `underflows`, values beyond `fitted` may exist but be too small
    for a float64. If `steady`, one line describes both halves.
    """

    rate: Rate | None
    near: Rate | None
    far: Rate | None
    steady: bool
    fitted: int
    reach: int
    ends: bool
    underflows: bool


def decay(norms: Floats) -> Decay:
    """Fit the decay of `norms`, shape (seeds, n), over distances 0 to n − 1. No norm may be negative."""
    present = np.flatnonzero((norms > 0).any(axis=0))
    reach = int(present[-1]) if len(present) else 0
    ends = reach < norms.shape[1] - 1
    fitted = max(0, min(map(_last_sound, norms)))
    last = norms[:, fitted]
    underflows = fitted < norms.shape[1] - 1 and bool(((last > 0) & (last < FLOOR / np.finfo(float).eps)).any())
    if fitted < _LEAST_POINTS:
        return Decay(None, None, None, True, fitted, reach, ends, underflows)
    logs = np.log(norms[:, 1 : fitted + 1])
    middle = fitted // 2
    near, far = _slopes(logs[:, :middle]), _slopes(logs[:, middle:])
    steady = _steady(near, far, fitted)
    return Decay(_rate(_slopes(logs)), _rate(near), _rate(far), steady, fitted, reach, ends, underflows)


def _last_sound(norms: Floats) -> int:
    """The last distance before the norms of one seed become 0 or too small to be exact."""
    lost = np.flatnonzero(norms < FLOOR)
    return int(lost[0]) - 1 if len(lost) else len(norms) - 1


def _slopes(logs: Floats) -> Floats:
    """The slope of the least-squares line through each row, shape (seeds,); `logs` is (seeds, k)."""
    place = np.arange(logs.shape[1]) - (logs.shape[1] - 1) / 2
    return logs @ place / (place @ place)


def _rate(slopes: Floats) -> Rate:
    mean, half_width = _mean(slopes)
    with np.errstate(over="ignore"):  # a value that overflows becomes infinite
        value, lo, hi = np.exp([mean, mean - half_width, mean + half_width])
    return Rate(float(value), float(lo), float(hi))


def _mean(values: Floats) -> tuple[float, float]:
    """The mean over seeds and the half-width of its interval."""
    number = len(values)
    if number < 2:
        return float(values.mean()), math.inf
    quantile = stdtrit(number - 1, (1 + CONFIDENCE) / 2)
    return float(values.mean()), float(quantile * values.std(ddof=1) / math.sqrt(number))


def _steady(near: Floats, far: Floats, fitted: int) -> bool:
    """Whether one line describes both halves.

    It does if the slopes differ only by chance, by less than a factor of 2 over one half, or by a small share.
    """
    difference, half_width = _mean(far - near)
    by_chance, small = abs(difference) <= half_width, abs(difference) * fitted / 2 < math.log(2)
    return by_chance or small or abs(difference) < _ALIKE * max(abs(near.mean()), abs(far.mean()))
