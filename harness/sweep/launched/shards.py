"""Divide cases into shards. Cases that are compared with each other are measured on one node."""

from collections.abc import Collection, Iterable

from harness.case import Case


def shards_of(cases: Iterable[Case], apart: Collection[str]) -> list[tuple[Case, ...]]:
    """Group the cases by their values of the axes `apart`. Cases with the same values share a shard."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in sorted(cases):
        groups.setdefault(tuple(getattr(case, axis) for axis in apart), []).append(case)
    return [tuple(group) for group in groups.values()]
