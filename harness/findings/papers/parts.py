"""Read and check the parts of a paper's file. A UsageError says in one line where a part is wrong.

`where` names the place in the file for the error message.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from harness import catalog
from harness.case import AXES
from harness.config.axes import check_axis, flat
from harness.errors import UsageError, did_you_mean
from harness.findings.papers.paper import At

# The axes of a figure: those of a case, and the width of one head.
AT = (*AXES, "head_dim")


def layers_of(name: Any, where: str) -> tuple[str, str]:
    """Split `impl` or `impl / other` into two names, the second empty if absent.

    Raises UsageError if a name is not that of a layer.
    """
    of, _, over = (part.strip() for part in str(name).partition(" / "))
    for layer in (of, over) if " /" in str(name) else (of,):
        try:
            catalog.check_name(layer)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    return of, over


def at_of(given: Any, where: str) -> dict[str, tuple[Any, ...]]:
    """Return the values of each axis; empty if None is given. Raises UsageError for unknown axes or values."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: at is no table of axes")
    return {one_of(axis, AT, f"{where}: at"): values_of(axis, flat(value), where) for axis, value in given.items()}


def against_of(given: Any, at: At, where: str) -> dict[str, tuple[Any, ...]]:
    """Return the axes and values at which the quantity to divide by is found.

    Raises UsageError for `head_dim`, and unless each axis has one value here and another single value in `at`.
    """
    against = at_of(given, f"{where}: against")
    for axis, values in against.items():
        if axis == "head_dim" or len(values) != 1 or len(at.get(axis, ())) != 1 or at[axis] == values:
            raise UsageError(
                f"{where}: against: {axis}: it takes axes of at, with one value there and another one here"
            )
    return against


def values_of(axis: str, given: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Return the checked values of an axis. Raises UsageError for an invalid or repeated value."""
    try:
        values = check_axis("d_model" if axis == "head_dim" else axis, given)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    if len(values) != len(given):
        raise UsageError(f"{where}: {axis} has a value twice")
    return values


def check_keys(given: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
    """Raise UsageError for an unknown key."""
    for key in given:
        one_of(key, known, where)


def text_of(given: Any, where: str) -> str:
    """Return the text on one line; empty if None is given. Raises UsageError for anything else."""
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{where}: {given} is no text")
    return " ".join((given or "").split())


def list_of(given: Any, where: str) -> Sequence[Any]:
    """Return the list; empty if None is given. Raises UsageError for anything else."""
    if given is not None and not isinstance(given, list):
        raise UsageError(f"{where}: it takes a list")
    return given or []


def number_of(given: Any, where: str) -> float:
    """Return the number as a float. Raises UsageError for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise UsageError(f"{where}: {given} is no number")
    return float(given)


def one_of(given: Any, known: Any, where: str) -> str:
    """Return the name as text. Raises UsageError if it is not one of the known names."""
    if given not in known:
        raise UsageError(f"{where}: {given}{did_you_mean(str(given), list(known))}")
    return str(given)
