"""Choose cases of a baseline with the overrides of axes: `impl=attention.*`, `seq_len=64,128`."""

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob
from hydra.errors import HydraException

from harness.case import AXES, Case
from harness.config.overrides import quoted, split
from harness.errors import UsageError, did_you_mean
from harness.former_names import present_option

_OF_GRIDS = ("preset", "shape")


def split_filters(overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """`(overrides of axes, other overrides)`. Raises UsageError for an override that defines a grid."""
    axes: list[str] = []
    others: list[str] = []
    for text in map(present_option, overrides):
        name = text.partition("=")[0].lstrip("+~")
        if name in _OF_GRIDS:
            raise UsageError(f"{text}: the cases are those of the file, and {name} chooses none of them; give axes")
        (axes if name in AXES else others).append(text)
    return axes, others


def choose_cases(cases: Collection[Case], overrides: Sequence[str], place: object) -> list[Case]:
    """The cases that have one of the requested values on each axis. `place` names their origin in messages.

    Raises UsageError for a value that no case has, and if no case matches all overrides.
    """
    left = sorted(cases)
    for axis, wanted in _read_filter(overrides, {case.impl for case in cases}).items():
        known = list(dict.fromkeys(getattr(case, axis) for case in sorted(cases)))
        for value in wanted:
            if value not in known:
                names = [str(one) for one in known]
                near = did_you_mean(str(value), names) if axis == "impl" else ""
                raise UsageError(f"{axis}={value}: no case of {place} has it; it has {','.join(names)}{near}")
        left = [case for case in left if getattr(case, axis) in wanted]
    if not left:
        raise UsageError(f"no case of {place} has {' '.join(overrides)} all at once")
    return left


def _read_filter(overrides: Sequence[str], impls: Collection[str]) -> dict[str, list[Any]]:
    wanted: dict[str, list[Any]] = {}
    for text in overrides:
        matches = _matches(text, impls)
        found = {"impl": matches} if matches is not None else split([text], AXES, {})[0]
        for axis, values in found.items():
            if axis in wanted:
                raise UsageError(f"{axis} is given twice")
            wanted[axis] = [one for value in _flat(values) for one in _names(axis, value, impls)]
    return wanted


def _matches(text: str, impls: Collection[str]) -> list[str] | None:
    """The layers of the file, not of the registry, that `impl=glob(…)` matches; None for any other override."""
    try:
        value = OverridesParser.create().parse_override(quoted(text)).value() if text.startswith("impl=glob(") else None
    except HydraException as error:
        raise UsageError(f"cannot read '{text}': {' '.join(str(error).split())}") from error
    return _any_text(text, value.filter(sorted(impls)), impls) if isinstance(value, Glob) else None


def _names(axis: str, value: Any, impls: Collection[str]) -> list[Any]:
    """All names that a name with * matches; any other value alone."""
    if axis != "impl" or "*" not in str(value):
        return [value]
    return _any_text(f"impl={value}", [name for name in sorted(impls) if fnmatchcase(name, str(value))], impls)


def _any_text(text: str, found: list[str], impls: Collection[str]) -> list[str]:
    if not found:
        raise UsageError(f"{text}: no impl of the file matches; it has {', '.join(sorted(impls))}")
    return found


def _flat(values: Any) -> list[Any]:
    return [one for value in values for one in _flat(value)] if isinstance(values, list) else [values]
