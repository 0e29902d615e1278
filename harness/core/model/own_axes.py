"""Own axes: options that a layer declares, each with a letter and a default: `axes = {"window": ("w", 128)}`.

Results keep them as a text beside each case. So the letters and their values are known without the layer: cost models
and claims are in these letters, and cases that differ in them alone are one series.
"""

import inspect
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import cache
from itertools import chain
from typing import Any

from impls.registry import IMPLS

from .errors import UsageError, did_you_mean
from .layer_options import NO_OPTIONS, joined, options_of, parts_of, value_text, without, without_defaults
from .polynomial import OwnSize, Polynomial, own_letter
from .sweep_axes import AXES, LETTERS

# The letter and the default of each own axis, by its name.
OwnAxes = dict[str, tuple[str, Any]]


def declared_axes(layer_class: Any) -> OwnAxes:
    """The own axes that a layer declares, with their letters and defaults. Raises UsageError as `read_axes`."""
    return read_axes(getattr(layer_class, "axes", {}))


def read_axes(stated: Any) -> OwnAxes:
    """The own axes in an attribute `axes`.

    Raises UsageError for anything else, and for a letter that has another meaning.
    """
    example = "it must be {'window': ('w', 128)}, a letter and a default for each"
    if not isinstance(stated, Mapping):
        raise UsageError(f"axes is {stated!r}: {example}")
    axes = {}
    reserved = [*LETTERS, "D", "t"]
    for name, axis in stated.items():
        if not (isinstance(axis, tuple | list) and len(axis) == 2 and isinstance(axis[0], str)):
            raise UsageError(f"axes['{name}'] is {axis!r}: {example}")
        letter, default = axis
        if len(letter) != 1 or not letter.isalpha() or letter in reserved:
            raise UsageError(
                f"axes['{name}'] has the letter '{letter}': give a single one, and none of {', '.join(reserved)}"
            )
        reserved.append(letter)
        axes[str(name)] = letter, default
    return axes


def check_axes(name: str, axes: Mapping[str, Any], signature: inspect.Signature, letters: Collection[str] = ()) -> None:
    """Raise UsageError for an axis that `name` does not take, or takes with another default.

    Sizes of inputs, which have these `letters`, need no parameter.
    """
    parameters = signature.parameters
    for axis, (letter, default) in axes.items():
        if axis not in parameters and letter not in letters and not takes_any(signature):
            raise UsageError(f"{name}.axes: {name} has no parameter '{axis}'{did_you_mean(axis, parameters)}")
        of_layer = getattr(parameters.get(axis), "default", None)
        if isinstance(of_layer, int | float | str) and of_layer != default:
            raise UsageError(f"{name}.axes has {axis}={default}, but {name} has {axis}={of_layer}: give one default")


def takes_any(signature: inspect.Signature) -> bool:
    """Whether any keyword is accepted."""
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())


def own_letters(layer_class: Any, at: Any) -> dict[str, int | Fraction]:
    """The values of the letters of a layer's own axes, at a case or setting, or else their defaults."""
    options = options_of(getattr(at, "options", NO_OPTIONS))
    values = {letter: options.get(name, default) for name, (letter, default) in declared_axes(layer_class).items()}
    return {letter: Fraction(value) for letter, value in values.items() if type(value) in (int, float)}


def option_defaults(layer_class: Any) -> dict[str, str | None]:
    """The names of a layer's options with their defaults as texts; None for a default that no option can be.

    They are its constructor's keywords with a default, and its own axes.
    """
    parameters = inspect.signature(layer_class).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items() if name not in AXES}
    defaults |= {name: default for name, (_, default) in declared_axes(layer_class).items()}
    return {name: value_text(default) for name, default in defaults.items() if default is not inspect.Parameter.empty}


def axes_text(layer_class: Any) -> str | None:
    """The declared axes that are sizes, as results keep them: `{"window": ["w", 128]}`; None without any."""
    sizes = {name: axis for name, axis in declared_axes(layer_class).items() if is_size(axis[1])}
    return json.dumps(sizes, ensure_ascii=False) if sizes else None


def is_size(value: Any) -> bool:
    """Whether a value is a number above 0 that fits into eight bytes."""
    return type(value) in (int, float) and 0 < value < 2**63


def check_sizes(impl: str, text: str | None, options: str) -> None:
    """Raise UsageError if an option is no size along its axis in the text.

    `null` is allowed, as a layer may do without.
    """
    for name, (_, default) in axes_of_text(text).items():
        value = options_of(options).get(name)
        if value is not None and not (is_size(value) and type(value) in (int, type(default))):
            number = "whole number of 1 or more" if type(default) is int else "number above 0"
            raise UsageError(f"layer.{name}={value}: it is a size of {impl}: give a {number}")


@cache
def axes_of_text(text: str | None) -> Mapping[str, tuple[str, float]]:
    """The axes in a text that `axes_text` wrote, by name. A text edited by hand that is none has no axes."""
    try:
        stated = json.loads(text or "{}")
        axes = {name: (str(letter), value) for name, (letter, value) in stated.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
    return {name: axis for name, axis in axes.items() if len(axis[0]) == 1 and is_size(axis[1])}


@cache
def own_size(text: str | None, options: str) -> OwnSize:
    """The value of each letter in the text, at these options; without those whose value is no size."""
    axes, sizes = axes_of_text(text), sizes_by_name(text, options)
    return tuple(sorted((axes[name][0], size) for name, size in sizes.items()))


def sizes_of(at: Any, text: str | None) -> OwnSize:
    """The value of each letter in the text, at the options of a case, and of m if the case has a source."""
    size = own_size(text, at.options)
    return tuple(sorted((*size, ("m", at.kv_len)))) if at.kv_len else size


@cache
def other_options(text: str | None, options: str) -> str:
    """The options that are no size along an axis in the text."""
    return without(options, sizes_by_name(text, options))


def unclaimed_options(impl: str, text: str | None, options: str) -> str:
    """The options that a registered layer's claims do not know: those without a declared axis; empty if none.

    Its claims hold at the defaults of such keywords. Users' layers state their claims at the options given.
    """
    unclaimed = other_options(text, options)
    return "" if unclaimed == NO_OPTIONS or impl not in IMPLS else unclaimed


@cache
def sizes_by_name(text: str | None, options: str) -> dict[str, float]:
    """The value along each axis in the text, by name; without those whose value is no size."""
    stated = options_of(options)
    values = {name: stated.get(name, default) for name, (_, default) in axes_of_text(text).items()}
    return {name: value for name, value in values.items() if is_size(value)}


@cache
def stated_options(text: str | None, options: str, names: frozenset[str] | None = None) -> str:
    """The options with the size along each axis in the text, or of these names, whether or not it is the default."""
    sizes = {name: size for name, size in sizes_by_name(text, options).items() if names is None or name in names}
    return with_sizes(options, sizes)


def with_sizes(options: str, sizes: Mapping[str, float]) -> str:
    """The options with these sizes, by name."""
    return joined((parts_of(options) | {name: f"{name}={size}" for name, size in sizes.items()}).values())


def at_size(text: str | None, options: str, name: str, value: float) -> str:
    """The options with another size along an axis in the text, without sizes that are the default."""
    return without_default_sizes(text, with_sizes(options, {name: value}))


@cache
def without_default_sizes(text: str | None, options: str) -> str:
    """The options without sizes that are the default along an axis in the text."""
    return without_defaults(options, {name: value_text(default) for name, (_, default) in axes_of_text(text).items()})


def varied_of_layers(lines: Iterable[Any]) -> dict[str, frozenset[str]]:
    """The names of the axes along which each layer takes more than one value, by `impl`.

    The lines have `impl`, `own_axes` and `options`. Two layers with one value each do not vary.
    """
    values = dict[str, dict[str, set[float]]]()
    for line in lines:
        for name, size in sizes_by_name(line.own_axes, line.options).items():
            values.setdefault(line.impl, {}).setdefault(name, set()).add(size)
    return {
        impl: frozenset(name for name, sizes in of_layer.items() if len(sizes) > 1) for impl, of_layer in values.items()
    }


def varied_axes(lines: Iterable[Any]) -> list[str]:
    """The names of the axes along which some layer takes more than one value."""
    return sorted(frozenset().union(*varied_of_layers(lines).values()))


def letters_of_texts(texts: Iterable[str | None]) -> dict[str, Polynomial]:
    """The letters in these texts, for `parse`."""
    return {letter: own_letter(letter) for letter in names_of_letters(texts)}


def names_of_letters(texts: Iterable[str | None]) -> dict[str, str]:
    """The name of the axis of each letter, in these texts."""
    return {letter: name for text in texts for name, (letter, _) in axes_of_text(text).items()}


def varying(sizes: Iterable[OwnSize]) -> tuple[str, ...]:
    """The letters that take more than one value."""
    counts = Counter(letter for letter, _ in dict.fromkeys(chain(*sizes)))
    return tuple(letter for letter, count in counts.items() if count > 1)
