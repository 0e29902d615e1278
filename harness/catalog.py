"""Find a layer by its name: a registered one, or the user's own as `module:Class` or `path/to/a.py:Class`."""

import importlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from harness import own_file
from harness.case import Case
from harness.errors import UsageError, did_you_mean
from impls.registry import IMPLS

# A message lists at most this many classes of a module.
_MOST_NAMED = 12


def names() -> list[str]:
    """The registered names, in the registry's order."""
    return list(IMPLS)


def is_foreign(name: str) -> bool:
    """Whether `name` refers to a user's own layer, `their.module:TheirLayer` or `their/file.py:TheirLayer`."""
    return ":" in name


def is_in_a_file(name: str) -> bool:
    """Whether `name` refers to a layer in a file, `their/file.py:TheirLayer`."""
    place, _, attribute = name.rpartition(":")
    # A slash is required: `layers.py:Layer` means the module `py` in the package `layers`.
    return "/" in place and place.endswith(".py") and _is_dotted(attribute)


def _is_dotted(name: str) -> bool:
    """Whether `name` consists of Python identifiers, in letters of any script, joined by dots."""
    return all(part.isidentifier() for part in name.split("."))


def check_name(name: str) -> None:
    """Raise UsageError unless `name` is registered or has the form of a user's own layer.

    The user's module is not imported here: its code runs only in a trial's process.
    """
    if is_foreign(name):
        module, _, attribute = name.partition(":")
        if not ((_is_dotted(module) and _is_dotted(attribute)) or is_in_a_file(name)):
            raise UsageError(f"impl '{name}' is not of the form their.module:TheirLayer")
    elif name not in IMPLS:
        raise UsageError(f"unknown impl '{name}'{did_you_mean(name, IMPLS)} (your own layer: impl=module:Class)")


@dataclass(frozen=True)
class Traits:
    """What must be known of a layer before it is measured: its family, and whether it has heads.

    `files` identifies the code of a user's own layer, as `harness.layer_files` records it.
    """

    family: str
    has_heads: bool
    files: Mapping[str, str] = field(default_factory=dict, compare=False)


def traits(name: str) -> Traits:
    """The traits of a registered layer. Raises KeyError for any other: a trial examines those (`describe`)."""
    return Traits(IMPLS[name].family, IMPLS[name].has_heads)


def is_compiled(name: str) -> bool:
    """Whether a registered layer declares that its first call compiles. For a user's own layer, a trial finds out."""
    return name in IMPLS and IMPLS[name].compiled


def target(name: str) -> str:
    """The location of the layer, as `module:Class`. The name of a user's own layer is its location."""
    return IMPLS[name].target if name in IMPLS else name


def load_class(name: str) -> type:
    """The layer's class.

    Raises whatever importing its module raises, AttributeError if the module lacks the name, and TypeError if the
    name is not a class.
    """
    return _load(target(name))


def load_reference(name: str) -> type | None:
    """The class that defines what the layer must compute, with the same `state_dict`; None if the layer names none.

    The registry names the reference of a registered layer. A user's own layer may have an attribute `reference`: a
    class, `module:Class`, or the name of a registered layer, whose reference then applies.
    """
    if name in IMPLS:
        return _load(IMPLS[name].reference)
    reference = getattr(_load(name), "reference", None)
    if isinstance(reference, str):
        return _load(IMPLS[reference].reference) if reference in IMPLS else _load(reference)
    return reference


def build_options(name: str) -> dict[str, Any]:
    """Keyword arguments beyond `d_model` and `num_heads` that the registry passes to this layer."""
    return dict(IMPLS[name].options) if name in IMPLS else {}


def reference_options(name: str) -> dict[str, Any]:
    """Keyword arguments that the registry passes to this layer's reference.

    A user's own layer may name a registered layer as its reference. The arguments are then those of that layer.
    """
    of_whom = name if name in IMPLS else getattr(_load(name), "reference", None)
    return dict(IMPLS[of_whom].reference_options) if isinstance(of_whom, str) and of_whom in IMPLS else {}


def _load(target: str) -> type:
    place, _, attribute = target.rpartition(":")
    module = own_file.load(Path(place)) if is_in_a_file(target) else importlib.import_module(place)
    found: Any = module
    for name in unicodedata.normalize("NFKC", attribute).split("."):  # as Python reads names in source code
        if not hasattr(found, name):
            # Name the place as the user wrote it: a file outside any package has a different module name.
            raise AttributeError(f"{place} has no class '{attribute}'; {_classes_in(module)}")
        found = getattr(found, name)
    if not isinstance(found, type):
        raise TypeError(f"{target} is not a class; {_classes_in(module)}")
    return found


def _classes_in(module: ModuleType) -> str:
    """The public classes defined in `module`, for an error message."""
    classes = {name: value for name, value in vars(module).items() if isinstance(value, type) and name[0] != "_"}
    names = [name for name, value in classes.items() if value.__module__ == module.__name__]
    more = f", … and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"it has {', '.join(names[:_MOST_NAMED])}{more}" if names else "it has no class at all"


def unsupported_reason(case: Case, has_heads: bool) -> str | None:
    """Why the case is impossible, judging from its numbers alone; None if they allow it."""
    if has_heads and case.d_model % case.num_heads:
        return f"d_model={case.d_model} is not divisible by num_heads={case.num_heads}"
    return None
