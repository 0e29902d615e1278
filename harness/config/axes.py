"""Check the values of each axis, and points along several axes (`points`). An invalid value is a one-line error."""

import fnmatch
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from harness import registry
from harness.case import ALLOCATORS, AXES, DEVICES, DTYPES, MASKS, MODES
from harness.errors import UsageError, did_you_mean
from harness.former_names import SHORT, present

# Upper limits. No layer is measured beyond them: they catch a typing error before memory runs out.
LARGEST = {
    "seq_len": 10**9,
    "kv_len": 10**9,
    "d_model": 10**6,
    "num_heads": 10**6,
    "batch_size": 10**6,
    "threads": 1024,
}
# Lower limits other than 1. A length of 0 means no source.
_LEAST = {"kv_len": 0}
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
    values = flattened(given)
    if axis == "impl":
        values = [name for value in values for name in _matching(str(value))]
    if not values:
        raise UsageError(f"{axis} is an empty list: give at least one value")
    check = _CHECKS.get(axis, _whole)
    return tuple(dict.fromkeys(check(axis, value) for value in values))


def flattened(given: Any) -> list[Any]:
    """A flat list of the values in nested lists, or of a single value."""
    if isinstance(given, list | tuple):
        return [value for item in given for value in flattened(item)]
    return [given]


def _matching(pattern: str) -> list[str]:
    """The registered layers that a name with * matches; any other name unchanged.

    Raises UsageError if no layer matches.
    """
    if "*" not in pattern:
        return [pattern]
    names = fnmatch.filter(registry.names(), pattern)
    if not names:
        raise UsageError(f"impl={pattern}: no impl matches; known: {', '.join(registry.names())}")
    return names


def _whole(axis: str, value: Any) -> int:
    least = _LEAST.get(axis, 1)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST[axis]:
        raise UsageError(f"{axis}={value}: it takes whole numbers from {least} to {LARGEST[axis]}")
    return value


def _fraction(axis: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise UsageError(f"{axis}={value}: it takes a number from 0 and below 1")
    return float(value)


def _impl(axis: str, value: Any) -> str:
    registry.check_name(str(value))
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
    "padding_fraction": _fraction,
}


# Axes that a sweep must know before it builds cases, or that one trial cannot vary.
_NOT_IN_POINTS = ("impl", "device", "threads")
_ALLOWED = tuple(axis for axis in AXES if axis not in _NOT_IN_POINTS)

Point = dict[str, Any]


def check_points(given: Any, chosen: Mapping[str, Collection[Any]]) -> tuple[Point, ...]:
    """The `points`, each with one valid value for every axis that any point names.

    These are sizes that vary together, where a grid would have every combination of their values. For example,

        points=[{seq_len: 512, batch_size: 32}, {seq_len: 1024, batch_size: 16}]

    keeps the number of tokens constant, as benchmarks of kernels do.

    `chosen` holds the values of axes that the user set separately: they select among the points. Raises UsageError if
    no point remains, and for a value that is not a list of points.
    """
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(point, dict) and point for point in given) or not given:
        raise UsageError("points takes a list of points: points=[{seq_len:512,batch_size:32},…]")
    points = [
        {str(axis): _point_value(str(axis), value) for axis, value in _with_long_names(point).items()}
        for point in given
    ]
    named = points[0].keys()
    for point in points:
        if point.keys() != named:
            raise UsageError(f"points: {_point_text(point)} is not along {', '.join(named)}, as the first point is")
    asked = {axis: values for axis, values in chosen.items() if axis in named}
    left = [point for point in points if all(point[axis] in values for axis, values in asked.items())]
    if not left:
        wanted = " ".join(f"{axis}={','.join(map(str, values))}" for axis, values in asked.items())
        raise UsageError(f"{wanted}: no point matches; the points are {'; '.join(map(_point_text, points))}")
    return tuple(left)


def _with_long_names(point: Mapping[Any, Any]) -> dict[Any, Any]:
    return present({SHORT.get(axis, axis): value for axis, value in point.items()})


def _point_value(axis: str, value: Any) -> Any:
    if axis not in _ALLOWED:
        raise UsageError(f"points: {axis}{did_you_mean(axis, _ALLOWED)}")
    values = check_axis(axis, value)
    if len(values) != 1:
        raise UsageError(f"points: {axis}={value}: a point has one value along an axis")
    return values[0]


def _point_text(point: Point) -> str:
    return " ".join(f"{axis}={value}" for axis, value in point.items())
