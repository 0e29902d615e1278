"""How fast something fades with distance: a straight line through its logarithm.

    log y(k) = a + k · log r,   k = 1, 2, …

`r` is what each step keeps. One line for each seed, by least squares; the interval is between seeds, whose lines are
independent, as points of one line are not. Distance 0 is left out: what reaches a place from itself takes other ways.
Numbers in, numbers out.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]

# Below, a float64 loses digits before it is 0; what is there is no measurement any more.
FLOOR = 1e-290
# A line through fewer points says nothing of whether they lie on one.
_LEAST_POINTS = 4
_COVERAGE = 0.95
# Two rates whose logarithms are within such a share of one another are spoken of as one.
_ALIKE = 0.2


@dataclass(frozen=True)
class Rate:
    """What each step keeps, with its interval between seeds; with one seed there is none, and it is unbounded."""

    value: float
    lo: float
    hi: float

    @property
    def half_distance(self) -> float:
        """After how many steps a half is left; infinite where nothing is lost."""
        return math.log(0.5) / math.log(self.value) if self.value < 1 else math.inf


@dataclass(frozen=True)
class Decay:
    """`rate` over distances 1 to `fitted`, and of either half of them, `near` and `far`; None of too few distances.

    `reach` is the farthest distance of which anything is left at all, and `ends` whether there are farther ones.
    `underflows`: beyond `fitted` there may be something still, too small for a float64. `steady`: one line describes
    both halves.
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
    """Of `norms` (seeds, n), by distance 0 to n − 1, none negative."""
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
    """The distance before the first at which one seed has nothing, or too little to be exact."""
    lost = np.flatnonzero(norms < FLOOR)
    return int(lost[0]) - 1 if len(lost) else len(norms) - 1


def _slopes(logs: Floats) -> Floats:
    """Of the line of least squares through each row (seeds, k)."""
    place = np.arange(logs.shape[1]) - (logs.shape[1] - 1) / 2
    slopes: Floats = logs @ place / (place @ place)
    return slopes


def _rate(slopes: Floats) -> Rate:
    mean, reach = _mean(slopes)
    with np.errstate(over="ignore"):  # infinite where it is no number any more
        value, lo, hi = np.exp([mean, mean - reach, mean + reach])
    return Rate(float(value), float(lo), float(hi))


def _mean(values: Floats) -> tuple[float, float]:
    """The mean over seeds, and how far its interval reaches."""
    number = len(values)
    if number < 2:
        return float(values.mean()), math.inf
    quantile = stdtrit(number - 1, (1 + _COVERAGE) / 2)
    return float(values.mean()), float(quantile * values.std(ddof=1) / math.sqrt(number))


def _steady(near: Floats, far: Floats, fitted: int) -> bool:
    """Whether the halves differ by chance, by less than a factor of 2 over one of them, or by little of either."""
    difference, reach = _mean(far - near)
    by_chance, small = abs(difference) <= reach, abs(difference) * fitted / 2 < math.log(2)
    return by_chance or small or abs(difference) < _ALIKE * max(abs(near.mean()), abs(far.mean()))
