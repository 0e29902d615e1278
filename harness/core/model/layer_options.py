"""Options of a layer, its keywords with a default: `layer.window=64,256` on the command line.

A case holds them as one text on the axis `options`, such as `window=64` or `page_size=16+window=64`. The names are
sorted, so equal options are equal texts. An option that a layer declares with a letter is an own axis: see
`harness.core.model.own_axes`.
"""

import itertools
import re
from collections.abc import Container, Iterable, Mapping
from functools import cache
from typing import Any

from .errors import UsageError

NO_OPTIONS = "none"
# What precedes the name of an option on the command line.
OPTION = "layer."
_WORDS = {"true": True, "false": False, "null": None, "none": None}


@cache
def options_of(text: str) -> Mapping[str, Any]:
    """The values in the text by name, each a number, a truth value, None or a word.

    Raises UsageError for another text.
    """
    values = {}
    for part in [] if text == NO_OPTIONS else text.split("+"):
        pair = re.fullmatch(r"([^\W\d]\w*)=([\w.:/-]+)", part)
        if pair is None or pair[1] in values:
            raise UsageError(
                f"options={text}: it takes name=value, as layer.window=64 or options=page_size=16+window=64"
            )
        values[pair[1]] = _value(pair[2])
    return values


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def value_text(value: Any) -> str | None:
    """A value as an option's text, the same for equal values; None for one that no option can be."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_text = isinstance(value, str) and re.fullmatch(r"[\w.:/-]+", value) and _value(value) == value
    return str(value) if is_text or isinstance(value, int | float) else None


def parts_of(text: str) -> dict[str, str]:
    """The parts `name=value` of the text, by name. Raises UsageError for another text."""
    return dict(zip(options_of(text), text.split("+"), strict=False))


def joined(parts: Iterable[str]) -> str:
    """The parts `name=value` as one text, in the order of their names."""
    return "+".join(sorted(parts)) or NO_OPTIONS


def sorted_options(text: str) -> str:
    """The text with its names in order. Raises UsageError for a text that is no options."""
    return without(text, ())


def without(options: str, names: Container[str]) -> str:
    """The options with other names."""
    return joined(part for name, part in parts_of(options).items() if name not in names)


def without_defaults(options: str, defaults: Mapping[str, str | None]) -> str:
    """The options without those that have their default: `window=128` is the usual case if 128 is the default."""
    texts = {name: value_text(value) for name, value in options_of(options).items()}
    return without(options, [name for name, text in texts.items() if text is not None and text == defaults.get(name)])


def with_options(overrides: Iterable[str], is_quoted: bool = True) -> list[str]:
    """The overrides, with those of `layer.NAME` as one of the axis `options`: every combination of their values.

    Values are quoted for Hydra's grammar if `is_quoted`. Raises UsageError for an option without a value, and for
    options that are given in both ways.
    """
    kept = []
    of_layer = dict[str, list[str]]()
    for override in overrides:
        key, _, value = override.partition("=")
        name, values = key.strip(), re.sub(r"[\[\]'\"\s]", "", value).split(",")
        if name == "options":
            of_layer.setdefault("", []).extend(values)
        elif name.startswith(OPTION):
            short = name.removeprefix(OPTION)
            if short in of_layer:
                raise UsageError(f"{name} is given twice: give its values in one list, {name}=A,B")
            of_layer[short] = [f"{short}={text}" for text in values]
        else:
            kept.append(override)
    if not of_layer:
        return kept
    if "" in of_layer and len(of_layer) > 1:
        raise UsageError(f"options=… and {OPTION}{max(of_layer)}=… are the same axis: give one of them")
    texts = [sorted_options("+".join(parts)) for parts in itertools.product(*of_layer.values())]
    distinct = dict.fromkeys(texts)
    return [*kept, f"options=[{','.join(map(repr, distinct))}]" if is_quoted else f"options={','.join(distinct)}"]


def point_with_options(point: Mapping[Any, Any]) -> dict[str, Any]:
    """A point, with its options `layer.NAME` as one of the axis `options`.

    Raises UsageError for options that are given in both ways.
    """
    sizes = {str(key): value for key, value in point.items()}
    of_layer = {key: sizes.pop(key) for key in list(sizes) if key.startswith(OPTION)}
    if not of_layer:
        return sizes
    if "options" in sizes:
        raise UsageError(f"options=… and {max(of_layer)}=… are the same axis: give one of them")
    # A layer that is given 1.0 gets 1.0, and not 1.
    parts = (f"{key.removeprefix(OPTION)}={v if type(v) is float else value_text(v)}" for key, v in of_layer.items())
    return {**sizes, "options": sorted_options("+".join(parts))}


def typed(options: str) -> str:
    """The options as they are typed: `layer.page_size=16 layer.window=64`."""
    return " ".join(f"{OPTION}{part}" for part in parts_of(options).values()) or "options=none"
