"""Sizes beyond the configured ones: the largest, doubled along one axis."""

from collections.abc import Iterable

from harness.case import Case
from harness.config.axes import LARGEST


def largest_along(axis: str, cases: Iterable[Case]) -> list[Case]:
    """The largest case of each group of cases that differ in this axis alone."""
    ends: dict[Case, Case] = {}
    for case in sorted(cases):
        ends[case.at(axis, 1)] = case
    return list(ends.values())


def doubled_along(axis: str, cases: Iterable[Case]) -> set[Case]:
    """The cases at twice their size, without those above the upper limit of the axis."""
    doubled = {case.at(axis, 2 * getattr(case, axis)) for case in cases}
    return {case for case in doubled if getattr(case, axis) <= LARGEST[axis]}
