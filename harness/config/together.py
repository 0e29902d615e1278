"""Sizes that vary together: points along several axes, where a grid would have every combination of their values.

    together=[{seq_len: 512, batch_size: 32}, {seq_len: 1024, batch_size: 16}]

keeps the number of tokens constant, as benchmarks of kernels do.
"""

from collections.abc import Collection, Mapping
from typing import Any

from harness.case import AXES
from harness.config.axes import check_axis
from harness.errors import UsageError, did_you_mean

# Axes that a sweep must know before it builds cases, or that one trial cannot vary.
_NOT_TOGETHER = ("impl", "device", "threads")
_ALLOWED = tuple(axis for axis in AXES if axis not in _NOT_TOGETHER)

Point = dict[str, Any]


def check_together(given: Any, chosen: Mapping[str, Collection[Any]]) -> tuple[Point, ...]:
    """The points, each with one valid value for every axis that any point names.

    `chosen` holds the values of axes that the user set separately: they select among the points. Raises UsageError if
    no point remains, and for a value that is not a list of points.
    """
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(point, dict) and point for point in given) or not given:
        raise UsageError("together takes a list of points: together=[{seq_len:512,batch_size:32},…]")
    points = [{str(axis): _value(str(axis), value) for axis, value in point.items()} for point in given]
    named = points[0].keys()
    for point in points:
        if point.keys() != named:
            raise UsageError(f"together: {_text(point)} is not along {', '.join(named)}, as the first point is")
    asked = {axis: values for axis, values in chosen.items() if axis in named}
    left = [point for point in points if all(point[axis] in values for axis, values in asked.items())]
    if not left:
        wanted = " ".join(f"{axis}={','.join(map(str, values))}" for axis, values in asked.items())
        raise UsageError(f"{wanted}: no point of together is there; they are {'; '.join(map(_text, points))}")
    return tuple(left)


def _value(axis: str, value: Any) -> Any:
    if axis not in _ALLOWED:
        raise UsageError(f"together: {axis}{did_you_mean(axis, _ALLOWED)}")
    values = check_axis(axis, value)
    if len(values) != 1:
        raise UsageError(f"together: {axis}={value}: a point has one value along an axis")
    return values[0]


def _text(point: Point) -> str:
    return " ".join(f"{axis}={value}" for axis, value in point.items())
