"""What a paper's file is made of, part by part: each is checked, and UsageError says in a line where one is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness import catalog
from harness.case import AXES
from harness.config.axes import check_axis, flat
from harness.errors import UsageError, did_you_mean
from harness.findings.papers.paper import At

# What a figure may be at: the axes of a case, and the width of one head.
AT = (*AXES, "head_dim")


def layers_of(name: Any, where: str) -> tuple[str, str]:
    """`impl`, or `impl / other`. Raises UsageError where one is no layer's name."""
    of, _, over = (part.strip() for part in str(name).partition(" / "))
    for layer in (of, over) if " /" in str(name) else (of,):
        try:
            catalog.check_name(layer)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    return of, over


def at_of(given: Any, where: str) -> dict[str, tuple[Any, ...]]:
    """Values on axes; none for nothing."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: at is no table of axes")
    return {one_of(axis, AT, f"{where}: at"): values_of(axis, flat(value), where) for axis, value in given.items()}


def against_of(given: Any, at: At, where: str) -> dict[str, tuple[Any, ...]]:
    """Where else the same quantity is: one other value on each of some axes that `at` has a value of."""
    against = at_of(given, f"{where}: against")
    for axis, values in against.items():
        if axis == "head_dim" or len(values) != 1 or len(at.get(axis, ())) != 1 or at[axis] == values:
            raise UsageError(
                f"{where}: against: {axis}: it takes axes of at, with one value there and another one here"
            )
    return against


def values_of(axis: str, given: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Values that an axis may have, each once."""
    try:
        values = check_axis("d_model" if axis == "head_dim" else axis, given)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    if len(values) != len(given):
        raise UsageError(f"{where}: {axis} has a value twice")
    return values


def check_keys(given: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
    """Raise UsageError for a key that there is not."""
    for key in given:
        one_of(key, known, where)


def text_of(given: Any, where: str) -> str:
    """In one line; empty for none."""
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{where}: {given} is no text")
    return " ".join((given or "").split())


def list_of(given: Any, where: str) -> Sequence[Any]:
    """Empty for none."""
    if given is not None and not isinstance(given, list):
        raise UsageError(f"{where}: it takes a list")
    return given or []


def number_of(given: Any, where: str) -> float:
    """As a float."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise UsageError(f"{where}: {given} is no number")
    return float(given)


def one_of(given: Any, known: Any, where: str) -> str:
    """One of the known names."""
    if given not in known:
        raise UsageError(f"{where}: {given}{did_you_mean(str(given), list(known))}")
    return str(given)
