"""Find a layer by its name: its class and reference, and the claims of theory.

A name is that of a registered layer, or the user's own as `module:Class` or `path/to/a.py:Class`.

A claim is a formula in n, d and h, shown as written and evaluated exactly. It may also contain the letter of any other
size that a layer's constructor takes. The value at a case replaces that letter. The letters of axes that the layer
declares stay (`harness.core.model.own_axes`).

`work` counts the FLOPs of a forward pass over one sequence, `work_train` those of forward and backward. For one token,
with n in all, the claim is `work_decode`. A multiply-add is 2, and elementwise work is not counted.

The other claims are orders (see Vaswani et al. 2017, table 1). Words alive at the peak beyond weights and input are
`memory`. The sequential depth is `depth`. Operations on the longest path between two positions are `path`.
"""

import hashlib
import inspect
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core.model import own_axes
from harness.core.model.errors import UsageError, did_you_mean, nearest
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.layer_options import NO_OPTIONS
from harness.core.model.polynomial import Polynomial, constant, own_letter, parse
from harness.core.model.sweep_axes import AXES, LETTERS, Case
from impls.registry import IMPLS, Impl

from .layer_files import find_layers


def load_file(file: Path) -> ModuleType:
    """Import the module in `file`, at most once per process.

    This is for layers that cannot be imported by name, such as those in test modules. A file inside a package is
    imported as part of the package, so `from .others import …` works in it. Any other file gets a unique module name.

    Raises FileNotFoundError, with the path as given, if the file does not exist. Raises ImportError if the file is not
    a Python module, or if another file was imported under its module name. Exceptions of the module itself pass
    through.
    """
    if not file.is_file():
        beside = sorted(other.name for other in file.parent.glob("*.py")) if file.parent.is_dir() else []
        raise FileNotFoundError(f"there is no file {file}{did_you_mean(file.name, beside)}")
    file = file.absolute()
    packages = _packages(file)
    if not packages:
        mark = hashlib.sha256(str(file).encode()).hexdigest()[:12]
        return _run_file(f"_own_{mark}_{file.stem}", file)
    _run_file(packages[0].name, packages[0] / "__init__.py")
    parts = [package.name for package in packages] + [file.stem] * (file.stem != "__init__")
    module = import_module(".".join(parts))
    if not _is_file_of(module, file):
        raise ImportError(f"{file} cannot be imported as {module.__name__}: that is {module.__file__}")
    return module


def _packages(file: Path) -> list[Path]:
    """Directories of the packages that contain the file, outermost first."""
    packages = takewhile(lambda directory: (directory / "__init__.py").is_file(), file.parents)
    return list(packages)[::-1]


def _run_file(name: str, file: Path) -> ModuleType:
    """Run the file as module `name`, or return the module if this file has been imported under that name."""
    imported = sys.modules.get(name)
    if imported is not None:
        if not _is_file_of(imported, file):
            raise ImportError(f"{file} cannot be imported as {name}: that is {imported.__file__}")
        return imported
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_file_of(module: ModuleType, file: Path) -> bool:
    return module.__file__ is not None and Path(module.__file__).resolve() == file.resolve()


# A message lists at most this many classes of a module.
_MOST_NAMED = 12
_REFERENCES = "Give a class or function, 'module:name', or the name of a registered layer."
# By name, because the modules import torch.
_FUNCTIONS = "harness.core.trial.function_layer"
_SOFTMAX = "impls.attention.reference"


def near_layer(name: str, measured: Sequence[str]) -> str:
    """What to say after an error about a layer that is not in `measured`: the nearest of them, or all of them.

    An existing layer, or a user's own, is no misspelling, so no other is suggested for it.
    """
    exists = name in IMPLS or is_foreign(name)
    near = "" if exists else nearest(name, measured)
    return f"; did you mean '{near}'?" if near else f"; it has {', '.join(measured)}"


def is_foreign(name: str) -> bool:
    """Whether `name` refers to a user's own layer, `their.module:TheirLayer` or `their/file.py:TheirLayer`."""
    return ":" in name


def is_in_a_file(name: str) -> bool:
    """Whether `name` refers to a layer in a file, as `their/file.py:TheirLayer` and one of an extra's source do."""
    place, _, attribute = name.rpartition(":")
    return bool(source_of(name)) or ("/" in place and place.endswith(".py") and _is_dotted(attribute))


def _is_dotted(name: str) -> bool:
    """Whether `name` consists of Python identifiers, in letters of any script, joined by dots."""
    return all(part.isidentifier() for part in name.split("."))


def source_of(name: str) -> str | None:
    """The place of the function that makes a layer of an extra's source, as `problem-file:./a.py`; None for others.

    The text before the colon names the source. The function gets the text after it, and returns the layer's class.
    """
    return dict(entries("LAYER_SOURCES")).get(name.partition(":")[0])


def check_name(name: str) -> None:
    """Raise UsageError unless `name` is registered or has the form of a user's own layer.

    The user's module is not imported here: its code runs only in a trial's process.
    """
    if source_of(name):
        return
    if is_foreign(name) and not name.endswith(":"):
        module, _, attribute = name.partition(":")
        if module.endswith(".py") and "/" not in module:
            raise UsageError(f"impl '{name}': a layer in a file needs the file's path: impl=./{name}")
        if not ((_is_dotted(module) and _is_dotted(attribute)) or is_in_a_file(name)):
            raise UsageError(
                f"impl '{name}' is not of the form their.module:TheirLayer, in names of Python: register keys as such"
            )
    elif is_foreign(name) and not name.endswith(".py:") and not find_layers(name[:-1])[2]:
        raise UsageError(f"impl '{name}' is not of the form their.module:TheirLayer")
    elif name not in IMPLS:
        raise UsageError(f"unknown impl '{name}'{_instead(name.rstrip(':'))}")


def _instead(name: str) -> str:
    """What to type instead of an unknown name. No module of the user's is imported for that."""
    if any(registered.startswith(f"{name}.") for registered in IMPLS):
        return f"; did you mean 'impl={name}.*'?"
    module, attribute, layers = find_layers(name)
    if near := nearest(attribute, layers):
        return f"; did you mean '{module}:{near}'?"
    is_class = attribute[:1].isupper() or (layers and not attribute)  # registered names are in small letters
    if not is_class and (near := nearest(name, IMPLS)):
        return f"; did you mean '{near}'? (your own layer: impl=module:Class)"
    if layers:
        return f"; give a class or function of it, as impl={module}:{layers[0]}: {_listed(layers)}"
    if attribute:
        return f"; did you mean '{module}:{attribute}'?"
    if name.endswith(".py"):
        return f": no class or function can be read in '{module}'" if module else ": there is no such file"
    return "; see `python -m harness list` (your own layer: impl=module:Class)"


@dataclass(frozen=True)
class Layer:
    """What is known of a layer before it is measured: from the registry, or from a trial that examines it (`describe`).

    - `family`, `has_heads`, `compiled`: its traits, as in a registry entry.
    - `own_axes`: the sizes among its own axes, as `own_axes.axes_text` returns them.
    - `options`: its options with their defaults, as `own_axes.option_defaults` returns them. None if its constructor
      takes any keyword, or without a trial.
    - `files`: the code of a user's own layer, as `layer_files.files_of_class` returns it.
    - `refused`: what is wrong with it, or None.
    """

    family: str = "own"
    has_heads: bool = False
    compiled: bool = False
    own_axes: str | None = None
    options: Mapping[str, str | None] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None

    @classmethod
    def described(cls, answer: Mapping[str, Any]) -> "Layer":
        """The layer in the answer of the trial that examined it."""
        return cls(**{entry.name: answer[entry.name] for entry in fields(cls)})


def registered(name: str) -> Layer:
    """What the registry says of a layer. Raises KeyError for a user's own."""
    entry = IMPLS[name]
    return Layer(entry.family, entry.has_heads, entry.compiled, own_axes.axes_text(entry))


def is_compiled(name: str) -> bool:
    """Whether a registered layer declares that its first call compiles. For a user's own layer, a trial finds out."""
    return name in IMPLS and IMPLS[name].compiled


def target(name: str) -> str:
    """The location of the layer, as `module:Class`. The name of a user's own layer is its location."""
    return IMPLS[name].target if name in IMPLS else name


def package_of(name: str) -> str | None:
    """The top-level package or module that a layer needs besides torch; None if it needs none, or is in a file."""
    if name in IMPLS:
        return IMPLS[name].package or None
    return None if is_in_a_file(name) else re.split("[:.]", name)[0]


def load_class(name: str) -> type:
    """The layer's class, which is made for a function.

    Raises whatever importing its module raises, AttributeError if the module lacks the name, and TypeError if the
    name is neither a class nor a function, or if it is unknown what the function takes.
    """
    return _load(target(name))


# What a layer without a reference is compared with.
ITSELF = "itself in float64"


def load_reference(name: str) -> type | None:
    """The class that defines what the layer must compute, with the same `state_dict`; None if the layer names none.

    The registry names the reference of a registered layer. A user's own layer may have an attribute `reference`: a
    class or function, `module:name`, or the name of a registered layer, whose reference then applies. Raises UsageError
    if no reference can be found.
    """
    layer: Any = load_class(name)
    is_function, entry = hasattr(layer, "layout_hint"), _reference_entry(name)
    reference: Any = entry.reference if isinstance(entry, Impl) else entry
    stated = reference
    if isinstance(stated, type):
        return stated
    if isinstance(stated, str) and is_foreign(stated):
        try:
            reference = _find(stated) if is_function else _load(stated)
        except (ImportError, AttributeError, TypeError, FileNotFoundError) as error:
            raise UsageError(f"reference = {stated!r} cannot be loaded ({error}). {_REFERENCES}") from error
    elif isinstance(stated, str) or not (is_function or stated is None):
        near = nearest(str(stated), IMPLS)
        meant = f"; did you mean '{near}'?" if near else "."
        raise UsageError(f"reference = {stated!r} is no layer{meant} {_REFERENCES}")
    if not is_function:
        return reference
    # The packed kernels compute softmax attention, which is what a function without a reference is compared with.
    if layer.layout and stated == IMPLS["sdpa.naive"].reference:
        reference = import_module(_SOFTMAX).softmax_attention
    if isinstance(reference, type):
        raise UsageError(f"reference = '{layer.reference}' is a layer: give a function, or 'sdpa.naive'")
    try:
        return import_module(_FUNCTIONS).reference_of(layer, reference)
    except TypeError as error:
        raise UsageError(f"its reference: {error}") from error


def build_options(name: str) -> dict[str, Any]:
    """Keyword arguments beyond `d_model` and `num_heads` that the registry passes to this layer."""
    return dict(IMPLS[name].options) if name in IMPLS else {}


def reference_options(name: str) -> dict[str, Any]:
    """Keyword arguments that the registry passes to this layer's reference.

    A user's own layer may name a registered layer as its reference. The arguments are then those of that layer.
    """
    entry = _reference_entry(name)
    return dict(entry.reference_options) if isinstance(entry, Impl) else {}


def _reference_entry(name: str) -> Any:
    """The registry entry with the layer's reference, or else the attribute `reference` of a user's own layer."""
    reference = name if name in IMPLS else getattr(_load(name), "reference", None)
    return IMPLS.get(reference, reference) if isinstance(reference, str) else reference


def _load(target: str) -> type:
    if place := source_of(target):
        return referenced(place)(target.partition(":")[2])
    layer, module = _find(target), _module_of(target)
    if isinstance(layer, type):
        return layer
    if not callable(layer):
        raise TypeError(f"{target} is neither a class nor a function; {_classes_in(module)}")
    return import_module(_FUNCTIONS).class_of(layer, module.__name__)


def _module_of(target: str) -> ModuleType:
    place = target.rpartition(":")[0]
    return load_file(Path(place)) if is_in_a_file(target) else import_module(place)


def _find(target: str) -> Any:
    place, _, attribute = target.rpartition(":")
    value: Any = _module_of(target)
    for name in unicodedata.normalize("NFKC", attribute).split("."):  # as Python reads names in source code
        table = value() if isinstance(value, type) and issubclass(value, Mapping) else value
        keys = dict(table) if isinstance(table, Mapping) else {}  # functions that were registered there
        if not hasattr(value, name) and name not in keys:
            # Name the place as the user wrote it: a file outside any package has a different module name.
            instead = _listed(list(keys)) if keys else _classes_in(_module_of(target), attribute)
            raise AttributeError(f"{place} has no '{attribute}'; {instead}")
        value = getattr(value, name) if hasattr(value, name) else keys[name]
    return value


def _classes_in(module: ModuleType, near: str = "") -> str:
    """The public classes of `module` for an error message, or its functions: the one whose name is near, or all.

    Those that the module imports are listed if it defines none itself, as `torch.nn` does.
    """
    public = {name: value for name, value in vars(module).items() if name[0] != "_"}
    classes = {name: value for name, value in public.items() if isinstance(value, type) or inspect.isfunction(value)}
    names = [name for name, value in classes.items() if value.__module__ == module.__name__] or list(classes)
    meant = nearest(near, classes)
    return f"did you mean '{meant}'?" if meant else _listed(names)


def _listed(classes: Sequence[str]) -> str:
    more = f", … and {len(classes) - _MOST_NAMED} more" if len(classes) > _MOST_NAMED else ""
    return f"it has {', '.join(classes[:_MOST_NAMED])}{more}" if classes else "it has no class and no function"


def indivisible_size(case: Case, has_heads: bool) -> str | None:
    """Say which size of the case does not divide another one that it must divide; None if all do."""
    for name, axis in AXES.items():
        value = getattr(case, name)
        if axis.divides and has_heads and value and getattr(case, axis.divides) % value:
            return f"{axis.divides}={getattr(case, axis.divides)} is not divisible by {name}={value}"
    return None


EXACT = ("work", "work_train", "work_decode")
# Claims of an order, so `O(…)` around the formula adds nothing.
BY_ORDER = ("memory", "depth", "path")
CLAIMS = EXACT + BY_ORDER
# Letters of settings, each with its axis.
_SETTING_LETTERS = {letter: AXES[name] for letter, name in LETTERS.items() if AXES[name].own}


def work_of(claims: Mapping[str, Polynomial], mode: str) -> Polynomial | None:
    """The claimed FLOPs of one call in `mode`; None without a claim. Those of `backward` are training minus forward."""
    if mode == "backward":
        train, forward = claims.get("work_train"), claims.get("work")
        return train - forward if train and forward else None
    return claims.get({"forward": "work"}.get(mode, f"work_{mode}"))


def claims_of_impl(name: str, at: Any = None) -> dict[str, Polynomial]:
    """The claims of a registered layer, by their names in `CLAIMS`, at a case or setting, or at the default sizes.

    A user's own layer has none here: see `claims_of_class`.
    """
    entry = IMPLS.get(name)
    # Rows differ along these axes, and keep their letters.
    letters = _values_of_letters(at, entry) | own_axes.letters_of_texts([getattr(at, "own_axes", None)])
    return {claim: parse(text, letters) for claim in CLAIMS if (text := getattr(entry, claim, ""))}


def formula_at(text: str, at: Case, letters: Mapping[str, Polynomial] | None = None) -> Polynomial:
    """The formula, as in a claim, at a case, with further letters. Raises UsageError if it cannot be read."""
    return parse(text, {**_values_of_letters(at, IMPLS.get(at.impl)), **(letters or {})})


def _values_of_letters(at: Any, layer: Impl | type | None) -> dict[str, Polynomial]:
    """What to replace each letter of a setting by: its value, or the layer's own size for the default value.

    The own size of a user's layer is its constructor's default, if that is a number. The letters of its own axes stay
    if their values are sizes, and m stays if there is a source.
    """
    # In `compare ref=…`, the registry may be that of an older commit, without some fields.
    own_sizes = getattr(layer, "own_sizes", {})
    values = {}
    layer_class = layer if isinstance(layer, type) else None
    parameters = inspect.signature(layer_class).parameters if layer_class else {}
    for letter, axis in _SETTING_LETTERS.items():
        own_size = parse(axis.own) * constant(own_sizes.get(axis.name, Fraction(1)))
        default = getattr(parameters.get(axis.name), "default", 0)
        if default and isinstance(default, int):
            own_size = constant(default)
        value = getattr(at, axis.name, axis.default)
        size = constant(value) if axis.of_layer else own_letter(letter)
        values[letter] = own_size if value == axis.default else size
    sizes = dict(own_axes.own_size(own_axes.axes_text(layer_class), getattr(at, "options", NO_OPTIONS)))
    for letter, value in own_axes.own_letters(layer, at).items():
        values[letter] = own_letter(letter) if letter in sizes else constant(value)
    return values


def claims_of_class(layer_class: Any, at: Any = None) -> dict[str, Polynomial]:
    """The claims in the attribute `claims` of a user's own layer, at a case or setting; empty without that attribute.

    Raises UsageError if `claims` is not a mapping, and for an unknown claim or an unparsable formula.
    """
    claims = {}
    letters = _values_of_letters(at, layer_class)
    stated = getattr(layer_class, "claims", {})
    if not isinstance(stated, Mapping):
        raise UsageError(f"claims is {stated!r}: it must be {{'work': '8nd² + 4n²d', …}}")
    for claim, text in stated.items():
        if claim not in CLAIMS:
            raise UsageError(f"unknown claim '{claim}'{did_you_mean(str(claim), CLAIMS)}")
        claims[claim] = _claimed(claim, str(text), letters)
    return claims


def _claimed(claim: str, text: str, letters: Mapping[str, Polynomial]) -> Polynomial:
    of_order = re.fullmatch(r"\s*O\((.*)\)\s*", text)
    if of_order and claim not in BY_ORDER:
        raise UsageError(
            f"claims['{claim}'] is '{text}': an order is no count, and work is claimed to the last digit, as "
            f"8nd² + 4n²d; {', '.join(BY_ORDER)} may be O(…)"
        )
    try:
        return parse(of_order[1] if of_order else text, letters)
    except UsageError as error:
        raise UsageError(f"claims['{claim}']: {error}") from error
