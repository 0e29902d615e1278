"""Find the commit at which an exact fact changed, such as FLOPs, by binary search. Nothing is timed.

A fact repeats exactly, so one trial of a commit decides on which side of the change it lies. About log₂ of the number
of commits are measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class FirstChange(Generic[Value]):
    """The change lies at one of the commits `first` to `last`; all but the last of them cannot be measured.

    The fact is `was` before `first`, and `now` at `last`. `returns`: `now` is not the value of the last commit of all,
    so that the fact changed again later.
    """

    first: int
    last: int
    was: Value
    now: Value
    returns: bool


def first_change(last: int, fact_at: Callable[[int], Value | None]) -> FirstChange[Value] | None:
    """A change of the fact between the commits 0 and `last`; None if both have the same value.

    `fact_at` is None for a commit that cannot be measured. The search asks once for each commit. If the fact changes
    several times, the result is one of these changes: at `first - 1` the fact still had the value of commit 0.
    Raises ValueError if commit 0 or `last` cannot be measured.
    """
    was, end = fact_at(0), fact_at(last)
    if was is None or end is None:
        raise ValueError("an end of the range cannot be measured")
    if was == end:
        return None
    good, bad, now = 0, last, end
    unmeasured: set[int] = set()
    while inside := [at for at in range(good + 1, bad) if at not in unmeasured]:
        # The nearest to the middle: its neighbours may be commits that cannot be measured.
        at = min(inside, key=lambda one: (abs(2 * one - good - bad), one))
        value = fact_at(at)
        if value is None:
            unmeasured.add(at)
        elif value == was:
            good = at
        else:
            bad, now = at, value
    return FirstChange(good + 1, bad, was, now, now != end)
