"""Errors a user can cause: one line that says what is wrong and what to do."""

import difflib
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from harness.other_names import MEANT, OPTIONS

# A message lists at most this many known names.
_MOST_NAMED = 16


class UsageError(Exception):
    """The command cannot be carried out as given. The command line prints the message and exits with status 2."""


class CodeChanged(UsageError):
    """A layer's code was changed while it was measured. The message names the files."""


@contextmanager
def ended_by_changed_code(out: object) -> Iterator[None]:
    """Let CodeChanged, raised in the block, say how to go on with what `out` holds."""
    try:
        yield
    except CodeChanged as error:
        again = f"put the former code back and repeat the command with 'out={out}'"
        text = f"{error}. All rows before are kept: to continue, {again}; to measure the new code, name another out="
        raise CodeChanged(text) from None


@contextmanager
def usage_error_about(what: object) -> Iterator[None]:
    """Raise an OSError of the block as a UsageError that begins with `what`, such as a path."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror or error}") from error


def notify(*messages: object) -> None:
    """Print each message on a line of stderr that begins with the name of the program."""
    for message in messages:
        print(f"harness: {message}", file=sys.stderr)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name nearest to `name`; empty if none is near.

    Another tool's word for a known name counts as the nearest: `num_heads` for `heads`.
    """
    names = list(known)
    meant = MEANT.get(name.lower(), "")
    near = [meant] if meant in names else difflib.get_close_matches(name, names, n=1)
    return near[0] if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` with the known name nearest to `name`, or the known names if none is near.

    Of `precision.foo`, only the last part is compared, with those of all names that begin with `precision.`
    """
    names = list(known)
    option = OPTIONS.get(name.lower(), "")
    if option.partition("=")[0] in names:
        return f"; did you mean {option}?"
    group = name[: name.rfind(".") + 1]
    of_group = [other for other in names if other.startswith(group)]
    if group and of_group:
        names = of_group
        near = nearest(name.removeprefix(group), [other.removeprefix(group) for other in of_group])
    else:
        group, near = "", nearest(name, names)
    if near:
        return f"; did you mean '{group}{near}'?"
    more = f", … and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"; known: {', '.join(names[:_MOST_NAMED])}{more}" if names else ""


def unknown_key(name: str, known: Collection[str]) -> str:
    """The message about an unknown key. A key like none of those known may be a keyword of the layer."""
    instead = did_you_mean(name, known)
    is_option = "options" in known and name.isidentifier() and "; known: " in instead
    return f"unknown key '{name}'{instead}" + (f"; a keyword of the layer is layer.{name}=…" if is_option else "")
