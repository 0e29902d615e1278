"""Find the n from which one cost stays above another, with an interval.

Two costs are compared by the logarithm of their ratio, the gap. It is taken at each n where both costs are known.
Between two of these n, the gap and both ends of its interval are interpolated linearly in log n.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """log(cost / other) at `n` and its 95 % interval. An end is infinite if nothing bounds it."""

    n: float
    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Overtaking:
    """The `n` from which a cost stays above another: the last crossing up to the largest known n.

    "Surely above" means that all of the gap's 95 % interval is above 0; "surely not above", that none of it is.

    | n | lo | hi | meaning |
    | --- | --- | --- | --- |
    | a number | a number | a number | crossing at `n`: surely not above at `lo`, surely above from `hi` on |
    | 0 | 0 | 0 | above at every n |
    | None | the largest n | None | surely not above at the largest n: no crossing below it |
    | None | 0 | a number | surely above from `hi` on, at no n surely not above: noise could make a crossing |
    | None | less than the largest n | None | undecided at the largest n, surely not above at `lo` (0: nowhere) |
    """

    n: float | None
    lo: float | None
    hi: float | None


def gap(n: float, cost: tuple[float, float, float], other: tuple[float, float, float]) -> Gap:
    """Return the gap of two independent costs, each as `(value, lo, hi)` with a value above 0.

    The distances to the ends add up as squares. This is the method of variance estimates recovery (Zou and Donner
    2008, "Construction of confidence limits about effect measures", section 2).
    """
    (value, lo, hi), (other_value, other_lo, other_hi) = cost, other
    middle = math.log(value / other_value)
    down = math.hypot(_distance(lo, value), _distance(other_value, other_hi))
    up = math.hypot(_distance(value, hi), _distance(other_lo, other_value))
    return Gap(n, middle, middle - down, middle + up)


def _distance(small: float, large: float) -> float:
    return math.log(large / small) if small > 0 and large < math.inf else math.inf


def overtaking(gaps: Sequence[Gap]) -> Overtaking:
    """Find where the gap rises above 0 for good.

    `gaps` are in ascending order of n. Raises ValueError if `gaps` is empty.
    """
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
    """The n where one side of the gap is last at or below 0; None if it never is."""
    for i in range(len(gaps) - 1, -1, -1):
        before = side(gaps[i])
        if before > 0:
            continue
        if i == len(gaps) - 1:
            return gaps[i].n
        after = side(gaps[i + 1])
        # An infinite end cannot be interpolated. The crossing is then put at whichever n widens the interval.
        share = 1.0 if before == -math.inf else 0.0 if after == math.inf else before / (before - after)
        return math.exp((1 - share) * math.log(gaps[i].n) + share * math.log(gaps[i + 1].n))
    return None
