"""From which n on one cost is above another, and between which n that lies.

Two costs are compared by the logarithm of their ratio, the gap, at each n at which both are known. Between two such n
the gap, and each end of its interval, is taken as a straight line on log-log paper.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """log(cost / other) at `n` and its interval of 95 %, infinite to a side where nothing bounds it."""

    n: float
    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Overtaking:
    """From which `n` on a cost stays above another: the last crossing, up to the largest n that is known.

    | n | lo | hi | says |
    | --- | --- | --- | --- |
    | a number | a number | a number | below it surely not above before `lo`, above it surely from `hi` on |
    | 0 | 0 | 0 | above at every n |
    | None | the largest n | None | surely not above at the largest n: no crossing below it |
    | None | 0 | a number | surely above from `hi` on; at no smaller n surely not: noise alone could make a crossing |
    | None | less than the largest n | None | undecided at the largest n; surely not above at `lo`, 0 if nowhere |
    """

    n: float | None
    lo: float | None
    hi: float | None


def gap(n: float, cost: tuple[float, float, float], other: tuple[float, float, float]) -> Gap:
    """The gap of two independent costs, each as `(value, lo, hi)` with a value above 0.

    The distances to the ends add up as squares: the method of variance estimates recovery (Zou and Donner 2008,
    "Construction of confidence limits about effect measures", section 2).
    """
    (value, lo, hi), (other_value, other_lo, other_hi) = cost, other
    middle = math.log(value / other_value)
    down = math.hypot(_distance(lo, value), _distance(other_value, other_hi))
    up = math.hypot(_distance(value, hi), _distance(other_lo, other_value))
    return Gap(n, middle, middle - down, middle + up)


def _distance(small: float, large: float) -> float:
    return math.log(large / small) if small > 0 and large < math.inf else math.inf


def overtaking(gaps: Sequence[Gap]) -> Overtaking:
    """Where the gap rises above 0 for good. `gaps` by ascending n. Raises ValueError without any."""
    if not gaps:
        raise ValueError("a crossing needs a size at which both costs are known")
    last = gaps[-1]
    below = _rise(gaps, lambda gap: gap.hi)
    if last.hi <= 0:
        return Overtaking(None, last.n, None)
    if last.lo <= 0:
        return Overtaking(None, below or 0.0, None)
    above = _rise(gaps, lambda gap: gap.lo)
    if above is None:
        return Overtaking(0.0, 0.0, 0.0)
    return Overtaking(_rise(gaps, lambda gap: gap.value) if below is not None else None, below or 0.0, above)


def _rise(gaps: Sequence[Gap], side: Callable[[Gap], float]) -> float | None:
    """Where one side of the gap is last at or below 0; None where it never is."""
    for i in range(len(gaps) - 1, -1, -1):
        before = side(gaps[i])
        if before > 0:
            continue
        if i == len(gaps) - 1:
            return gaps[i].n
        after = side(gaps[i + 1])
        # An end of an interval that is not bounded is no point of a line: the crossing is as far off as it can be.
        share = 1.0 if before == -math.inf else 0.0 if after == math.inf else before / (before - after)
        return math.exp((1 - share) * math.log(gaps[i].n) + share * math.log(gaps[i + 1].n))
    return None
