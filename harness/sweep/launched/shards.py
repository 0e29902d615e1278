"""What is measured together: cases that are compared with each other, on one node."""

from collections.abc import Collection, Iterable

from harness.case import Case


def shards_of(cases: Iterable[Case], apart: Collection[str]) -> list[tuple[Case, ...]]:
    """The cases by their values of the axes `apart`: two that agree in all of these are in the same shard."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in sorted(cases):
        groups.setdefault(tuple(getattr(case, axis) for axis in apart), []).append(case)
    return [tuple(group) for group in groups.values()]
