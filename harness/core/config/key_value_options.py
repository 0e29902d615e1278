"""What users write: `key=value` options, with short names, and the values of axes and points.

A table of keys reads an option, or Hydra's grammar in `compose.py`. An invalid value is a one-line error.
"""

import fnmatch
import itertools
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.core.layers import layer_lookup
from harness.core.model import background_process, errors, sequence_lengths
from harness.core.model.errors import UsageError
from harness.core.model.file_io import cpu_quota
from harness.core.model.formatting import BYTE_UNITS, MORE_BYTE_UNITS
from harness.core.model.layer_options import point_with_options, sorted_options, with_options
from harness.core.model.sweep_axes import AXES, LETTERS
from impls.registry import IMPLS

# Values by the name of their key or axis.
Values = dict[str, Any]
_UNITS = BYTE_UNITS | MORE_BYTE_UNITS
_POINTS = "points=[{seq_len:512,batch_size:32},{seq_len:1024,batch_size:16}]"


def long_names(items: Mapping[Any, Any]) -> dict[Any, Any]:
    """The items under the long names: `n` is short for `seq_len`."""
    return {LETTERS.get(name, name): value for name, value in items.items()}


def present_option(option: str) -> str:
    """A `key=value` option under its long name, with our words for values and all digits of numbers like `4k`.

    Raises UsageError for points without their braces.
    """
    key, equals, value = option.partition("=")
    name = key.strip()
    if not equals:
        return option
    if name in LETTERS:
        key = name = LETTERS[name]
    if name in errors.VALUES:
        return f"{key}={errors.our_values(name, value)}"
    if name == "points":
        if "{" not in value and re.search(r"[A-Za-z_]\s*:", value):
            raise UsageError(f"{option}: your shell has expanded the braces; quote the option: '{_POINTS}'")
        return f"{key}={errors.whole_numbers(value)}"
    is_size = name == "head_dim" or (name in AXES and AXES[name].type is int)
    return f"{key}={errors.whole_numbers(value)}" if is_size else f"{key}={value}"


def bytes_in(text: str) -> int | None:
    """The number of bytes in a text such as `"8GiB"`, `"8GB"` or `"64M"`, or in a plain number; None for any other."""
    unit = next((unit for unit in _UNITS if text.lower().endswith(unit.lower())), "")
    try:
        return int(float(text[: len(text) - len(unit)]) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        return None


def whole(text: str) -> int:
    """The whole number in `text`. Raises ValueError for any other text."""
    # Longer numbers are beyond every bound, and take long to read.
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ValueError(text)
    return int(text)


def layer(text: str) -> str:
    """The name of a layer. Raises UsageError for an unknown one."""
    layer_lookup.check_name(text)
    return text


@dataclass(frozen=True)
class Key:
    """One key: its name, what reads its text, and its default value.

    A number is from `least` to `most`, both included. A text is one of `values`, if any are
    listed. With `many`, the value is a tuple. `takes` says in words what the key takes, if not a whole number.
    """

    name: str
    read: Callable[[str], Any] = str
    default: Any = None
    least: float = 1
    # No meaningful size is above 10⁹, and a law cannot be evaluated at the powers of larger numbers.
    most: float = 10**9
    values: tuple[str, ...] = ()
    many: bool = False
    takes: str = ""

    def value(self, text: str) -> Any:
        """The value in `text`. Raises UsageError if it is invalid."""
        if self.many:
            return tuple(dict.fromkeys(self._one(part) for part in text.split(",")))
        return self._one(text)

    def _one(self, text: str) -> Any:
        if self.values and text not in self.values:
            raise UsageError(f"unknown {self.name} '{text}'{errors.did_you_mean(text, self.values)}")
        try:
            value = self.read(text)
        except ValueError:
            value = None
        if isinstance(value, str):
            return value
        if value is None or not self.least <= value <= self.most:
            takes = self.takes or f"a whole number from {self.least} to {self.most}"
            raise UsageError(f"{self.name}={text}: it takes {takes}")
        return value


def read_keys(texts: Iterable[str], table: Sequence[Key]) -> Values:
    """The values of `key=value` texts by key; keys that are not given have their defaults.

    Raises UsageError for another form, an unknown or repeated key, and an invalid value.
    """
    keys = {key.name: key for key in table}
    values = {}
    for text in with_options(map(present_option, texts), is_quoted=False):
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"'{text}' is not of the form key=value, without spaces")
        if name not in keys:
            raise UsageError(errors.unknown_key(name, keys))
        if name in values:
            raise UsageError(f"{name} is given twice")
        values[name] = keys[name].value(value)
    return {name: key.default for name, key in keys.items()} | values


def take_keys(texts: Iterable[str], table: Sequence[Key]) -> tuple[Values, list[str]]:
    """The values of a command's own keys, as `read_keys` returns them, and the other texts."""
    names = [key.name for key in table]
    present = list(map(present_option, texts))
    of_command = [text for text in present if text.partition("=")[0] in names]
    return read_keys(of_command, table), [text for text in present if text not in of_command]


# A message lists at most this many layers, and families of more.
_MOST_NAMED = 16
MOST_VALUES = 100_000
MOST_CASES = 1_000_000


class SettingError(UsageError):
    """An invalid setting: its `key`, such as `precision.target`."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


@contextmanager
def _of_setting(key: str) -> Iterator[None]:
    """Raise each UsageError of the block as a SettingError of this setting."""
    try:
        yield
    except UsageError as error:
        raise SettingError(str(error), key) from error


def check_axes(stated: Values) -> dict[str, tuple[Any, ...]]:
    """Every given axis as a tuple of valid values without repeats.

    Raises UsageError for the first invalid value, and if the axes span more than `MOST_CASES` cases.
    """
    axes = {axis: check_axis(axis, stated[axis]) for axis in AXES if axis in stated}
    number = math.prod(map(len, axes.values()))
    if number > MOST_CASES:
        raise UsageError(f"the axes span {number:,} cases, more than {MOST_CASES:,}: sweep fewer values at once")
    return axes


def usable_cpus() -> int:
    """The number of CPUs that this process may use, and no more than the quota of its control group."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _ = cpu_quota()
    return min(allowed, max(1, int(quota or allowed)))


def check_axis(axis: str, stated: Any) -> tuple[Any, ...]:
    """The values of one axis, checked as in `check_axes`. None for `threads` means all usable CPUs.

    Raises SettingError for an invalid value.
    """
    if axis == "threads" and stated is None:
        return (usable_cpus(),)
    with _of_setting(axis):
        values = flattened(stated)
        if axis == "impl":
            values = [name for value in values for name in matching(str(value))]
        if not values:
            raise UsageError(f"{axis} is an empty list: give at least one value")
        if axis == "env":
            background_process.check_environments([str(value) for value in values])
        if axis == "lengths":
            for value in values:
                sequence_lengths.check_lengths(str(value))
        return tuple(dict.fromkeys(_checked(axis, value) for value in values))


def flattened(values: Any) -> list[Any]:
    """A flat list of the values in nested lists, or of a single value."""
    if isinstance(values, list | tuple):
        return [value for item in values for value in flattened(item)]
    return [values]


def matching(pattern: str, impls: Sequence[str] | None = None) -> list[str]:
    """The layers among `impls`, by default the registered ones, that a name with * matches; any other name unchanged.

    Raises UsageError if no layer matches.
    """
    if "*" not in pattern:
        return [pattern]
    names = list(IMPLS) if impls is None else impls
    return any_impl(fnmatch.filter(names, pattern), f"impl={pattern}", pattern, names)


def any_impl(matches: list[str], text: str, pattern: str, impls: Sequence[str]) -> list[str]:
    """The layers among `impls` that `pattern` has found. Raises UsageError without any; `text` is the override."""
    if matches:
        return matches
    families = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in impls)
    named = impls if len(impls) <= _MOST_NAMED else families
    raise UsageError(f"{text}: no impl matches{errors.did_you_mean(pattern, named)}")


def _checked(axis: str, value: Any) -> Any:
    """The value, if it is valid along the axis. Raises UsageError otherwise."""
    of_axis = AXES[axis]
    if axis == "impl":
        layer_lookup.check_name(str(value))
    if of_axis.values and not of_axis.is_known(value):
        raise UsageError(f"unknown {axis} '{value}'{errors.did_you_mean(str(value), of_axis.values)}")
    if axis == "options":
        return sorted_options(str(value))
    if of_axis.type is str:
        return str(value)
    is_number = type(value) in (int, float)
    if of_axis.type is float:
        if not is_number or not of_axis.least <= value < of_axis.most:
            raise UsageError(f"{axis}={value}: it takes a number from {of_axis.least} and below {of_axis.most}")
        return float(value)
    if type(value) is not int or not of_axis.least <= value <= of_axis.most:
        raise UsageError(f"{axis}={value}: it takes whole numbers from {of_axis.least} to {of_axis.most}")
    return value


# Axes that a sweep must know before it builds cases, or that one trial cannot vary.
_NOT_IN_POINTS = ("impl", "device", "threads", "env")
_ALLOWED = tuple(axis for axis in AXES if axis not in _NOT_IN_POINTS)

Point = dict[str, Any]


def check_points(stated: Any, chosen: Mapping[str, Collection[Any]]) -> tuple[Point, ...]:
    """The `points`, each with one valid value for every axis that any point names.

    These are sizes that vary together, where a grid would have every combination of their values. For example,

        points=[{seq_len: 512, batch_size: 32}, {seq_len: 1024, batch_size: 16}]

    keeps the number of tokens constant, as benchmarks of kernels do.

    `chosen` holds the values of axes that the user set separately: they select among the points. Raises UsageError if
    no point remains, and for a value that is not a list of points.
    """
    if stated is None:
        return ()
    with _of_setting("points"):
        if not isinstance(stated, list) or not all(isinstance(point, dict) and point for point in stated) or not stated:
            raise UsageError(f"points takes a list of points, in quotes: '{_POINTS}'")
        points = [
            {str(axis): _point_value(str(axis), value) for axis, value in long_names(point_with_options(point)).items()}
            for point in stated
        ]
        named = points[0].keys()
        for point in points:
            if point.keys() != named:
                raise UsageError(f"points: {_point_text(point)} is not along {', '.join(named)}, as the first point is")
        filters = {axis: values for axis, values in chosen.items() if axis in named}
        left = [point for point in points if all(point[axis] in values for axis, values in filters.items())]
        if not left:
            chosen_values = " ".join(f"{axis}={','.join(map(str, values))}" for axis, values in filters.items())
            listed = "; ".join(map(_point_text, points))
            raise UsageError(
                f"{chosen_values} matches none of the points: {listed}; leave it out, or give points=null too"
            )
        return tuple(left)


def points_of_head_dim(head_dims: Any, num_heads: Any, points: Any) -> Any:
    """The points with d_model = num_heads × head_dim, for every head_dim, every number of heads and every point.

    `points` are those of the user, or None. Raises UsageError for an invalid value and for points that have a d_model.
    """
    sizes = flattened(head_dims)
    if not sizes or not all(type(size) is int and 1 <= size <= AXES["d_model"].most for size in sizes):
        raise UsageError(
            f"head_dim={','.join(map(str, sizes))}: it takes whole numbers from 1 to {AXES['d_model'].most}"
        )
    if points is not None and not (isinstance(points, list) and all(isinstance(point, Mapping) for point in points)):
        return points  # `check_points` says what is wrong
    with_widths = []
    for size, point in itertools.product(sizes, map(long_names, points or [{}])):
        if "d_model" in point:
            raise UsageError("head_dim sets d_model, and the points have a d_model too: leave one of them out")
        for heads in check_axis("num_heads", point.get("num_heads", num_heads)):
            with_widths.append({**point, "d_model": heads * size, "num_heads": heads})
    return with_widths


def _point_value(axis: str, value: Any) -> Any:
    if axis not in _ALLOWED:
        raise UsageError(f"points: {axis}{errors.did_you_mean(axis, _ALLOWED)}")
    values = check_axis(axis, value)
    if len(values) != 1:
        raise UsageError(f"points: {axis}={value}: a point has one value along an axis")
    return values[0]


def _point_text(point: Point) -> str:
    return " ".join(f"{axis}={value}" for axis, value in point.items())
