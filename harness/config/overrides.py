"""Split command-line overrides into the values of axes and the rest, which Hydra composes.

The grammar is Hydra's, read by Hydra's own parser: `a=1,2`, `a=range(1,9,2)`, `a=glob(x.*)`, `a=[1,2]`.
"""

import difflib
import itertools
import re
from collections.abc import Collection, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep, Override, QuotedString
from hydra.errors import HydraException

from harness import registry
from harness.case import AXES
from harness.config.axes import MOST_VALUES
from harness.errors import UsageError, did_you_mean

# A quoted text, or the text between two punctuation marks of Hydra's grammar.
_WORD = re.compile(r"""'[^']*'|"[^"]*"|[^\s,\[\]{}()'"][^,\[\]{}()'"]*""")

# Settings that take several values but are not axes: a sweep does not iterate over them.
LISTS = ("retry",)


def split(
    arguments: Sequence[str], keys: Collection[str], groups: dict[str, list[str]]
) -> tuple[dict[str, Any], list[str]]:
    """`(axis values, overrides for Hydra)`. `keys` are all settings, `groups` the files to choose from.

    Raises UsageError for an unparsable override, a deletion, and an unknown key or group option. Several values for a
    setting that is not an axis are an error too.
    """
    axes: dict[str, Any] = {}
    rest = []
    for argument in arguments:
        if not key_of(argument).isascii():
            raise UsageError(f"unknown key '{key_of(argument)}'{nearest(key_of(argument), [*keys, *groups])}")
        override = _parse(argument)
        name = override.key_or_group
        if override.is_delete():
            raise UsageError(f"'{argument}': a sweep needs all its settings; give {name} another value instead")
        if name not in keys and name not in groups:
            raise UsageError(f"unknown key '{name}'{nearest(name, [*keys, *groups])}")
        if name in AXES or name in LISTS:
            axes[name] = _values(override)
            if name not in groups:
                continue
            # The axis is also a group of files (`device`): its first value chooses the file.
            argument = f"{name}={_first(axes[name])}"
        elif override.is_sweep_override():
            raise UsageError(f"{name} takes one value, not several; the axes to sweep are {', '.join(AXES)}")
        if name in groups:
            option = argument.partition("=")[2]
            if option not in groups[name]:
                raise UsageError(f"unknown {name} '{option}'{did_you_mean(option, groups[name])}")
        rest.append(quoted(argument))
    return axes, rest


def key_of(override: str) -> str:
    """The name of the setting that an override sets."""
    return override.partition("=")[0].strip().lstrip("+")


def quoted(argument: str) -> str:
    """The override with quotes around each value that contains non-ASCII letters, which Hydra's grammar lacks.

    Existing quotes stay. A value with interpolations, escaped characters or invalid Unicode is left unchanged.
    """
    key, equals, value = argument.partition("=")
    if value.isascii() or "${" in value or "\\" in value or argument.encode(errors="replace").decode() != argument:
        return argument
    return key + equals + _WORD.sub(_quoted_word, value)


def _quoted_word(found: re.Match[str]) -> str:
    word, before = found[0], found.string[: found.start()]
    if word.isascii() or word[0] in "'\"":
        return word
    name, colon, rest = word.partition(":") if before.count("{") > before.count("}") else ("", "", word)
    text = (rest if colon else word).rstrip()
    head = name + colon if colon else ""
    return f"{head}'{text}'{word[len(head) + len(text) :]}"


def nearest(name: str, known: Collection[str]) -> str:
    """A suggestion for an unknown name. For `precision.foo`: the nearest part of `precision`, or all its parts."""
    group, dot, part = name.rpartition(".")
    parts = [key.removeprefix(group + dot) for key in known if dot and key.startswith(group + dot)]
    if not parts:
        return did_you_mean(name, known)
    near = difflib.get_close_matches(part, parts, n=1)
    return f"; did you mean '{group}.{near[0]}'?" if near else f"; known: {group}.{'|'.join(parts)}"


def _parse(argument: str) -> Override:
    if "=" not in argument and not argument.startswith("~"):
        raise UsageError(f"'{argument}' is not of the form key=value")
    try:
        return OverridesParser.create().parse_override(quoted(argument))
    except HydraException as error:
        detail = " ".join(str(error).split())
        raise UsageError(f"cannot read '{argument}': {detail}") from error


def _values(override: Override) -> Any:
    """The override's values as plain Python values.

    Raises UsageError for more than `MOST_VALUES` values, before they fill the memory.
    """
    value = override.value()
    if isinstance(value, Glob):
        return _matches(value, override)
    if isinstance(value, IntervalSweep):
        raise UsageError(f"{override.input_line}: an interval has no end of values; use range(start,stop,step)")
    if override.is_sweep_override():
        try:
            items = itertools.islice(override.sweep_iterator(), MOST_VALUES + 1)
            values = [_matches(item, override) if isinstance(item, Glob) else _plain(item) for item in items]
        except (HydraException, ValueError, ZeroDivisionError) as error:
            raise UsageError(f"cannot read '{override.input_line}': {error}") from error
        if len(values) > MOST_VALUES:
            raise UsageError(f"{override.key_or_group} has more than {MOST_VALUES:,} values")
        return values
    return _plain(value)


def _matches(pattern: Glob, override: Override) -> list[str]:
    names = pattern.filter(registry.names())
    if override.key_or_group != "impl" or not names:
        raise UsageError(f"{override.input_line}: no impl matches; known: {', '.join(registry.names())}")
    return names


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _first(values: Any) -> Any:
    while isinstance(values, list):
        values = values[0] if values else ""
    return values
