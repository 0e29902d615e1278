"""Sizes beyond those that were asked for: from the largest on, doubled along one axis."""

from collections.abc import Iterable

from harness.case import Case
from harness.config.axes import LARGEST


def largest_along(axis: str, cases: Iterable[Case]) -> list[Case]:
    """Of all cases that differ along the axis alone the largest one."""
    ends: dict[Case, Case] = {}
    for case in sorted(cases):
        ends[case.at(axis, 1)] = case
    return list(ends.values())


def doubled_along(axis: str, cases: Iterable[Case]) -> set[Case]:
    """The cases at twice their size, but for those that nobody could measure."""
    doubled = {case.at(axis, 2 * getattr(case, axis)) for case in cases}
    return {case for case in doubled if getattr(case, axis) <= LARGEST[axis]}
