"""Check the values of each axis. An invalid value is an error of one line."""

import fnmatch
import os
from collections.abc import Callable, Iterable
from typing import Any

from harness import catalog
from harness.case import ALLOCATORS, AXES, DEVICES, DTYPES, MASKS, MODES
from harness.errors import UsageError, did_you_mean

# Upper limits. No layer is measured beyond them: they catch a typing error before memory runs out.
LARGEST = {
    "seq_len": 10**9,
    "source_len": 10**9,
    "d_model": 10**6,
    "num_heads": 10**6,
    "batch_size": 10**6,
    "threads": 1024,
}
# Lower limits other than 1. A length of 0 means no source.
_LEAST = {"source_len": 0}
MOST_VALUES = 100_000
MOST_CASES = 1_000_000


def check_axes(given: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Every axis as a tuple of valid values without repeats.

    Raises UsageError for the first invalid value, and if the axes span more than `MOST_CASES` cases.
    """
    axes = {axis: check_axis(axis, given[axis]) for axis in AXES}
    number = 1
    for values in axes.values():
        number *= len(values)
    if number > MOST_CASES:
        raise UsageError(f"the axes span {number:,} cases, more than {MOST_CASES:,}: sweep fewer values at once")
    return axes


def check_axis(axis: str, given: Any) -> tuple[Any, ...]:
    """The values of one axis, checked as in `check_axes`. None for `threads` means all usable CPUs."""
    if axis == "threads" and given is None:
        return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,)
    values = flat(given)
    if axis == "impl":
        values = [name for value in values for name in _matching(str(value))]
    if not values:
        raise UsageError(f"{axis} is an empty list: give at least one value")
    check = _CHECKS.get(axis, _whole)
    return tuple(dict.fromkeys(check(axis, value) for value in values))


def flat(given: Any) -> list[Any]:
    """A flat list of the values in nested lists, or of a single value."""
    if isinstance(given, list | tuple):
        return [value for item in given for value in flat(item)]
    return [given]


def _matching(pattern: str) -> list[str]:
    """The registered layers that a name with * matches; any other name unchanged.

    Raises UsageError if no layer matches.
    """
    if "*" not in pattern:
        return [pattern]
    names = fnmatch.filter(catalog.names(), pattern)
    if not names:
        raise UsageError(f"impl={pattern}: no impl matches; known: {', '.join(catalog.names())}")
    return names


def _whole(axis: str, value: Any) -> int:
    least = _LEAST.get(axis, 1)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST[axis]:
        raise UsageError(f"{axis}={value}: it takes whole numbers from {least} to {LARGEST[axis]}")
    return value


def _share(axis: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise UsageError(f"{axis}={value}: it takes a number above 0 and up to 1")
    return float(value)


def _impl(axis: str, value: Any) -> str:
    catalog.check_name(str(value))
    return str(value)


def _one_of(known: Iterable[str]) -> Callable[[str, Any], str]:
    def check(axis: str, value: Any) -> str:
        if value not in known:
            raise UsageError(f"unknown {axis} '{value}'{did_you_mean(str(value), known)}")
        return str(value)

    return check


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "impl": _impl,
    "mode": _one_of(MODES),
    "dtype": _one_of(DTYPES),
    "device": _one_of(DEVICES),
    "allocator": _one_of(ALLOCATORS),
    "mask": _one_of(MASKS),
    "real_share": _share,
}
