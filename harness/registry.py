"""Find and import a layer by its name, and compute digests of the files that define it.

A name is that of a registered layer, or the user's own as `module:Class` or `path/to/a.py:Class`.
"""

import hashlib
import importlib
import os
import sys
import sysconfig
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import impls
from harness.case import Case
from harness.errors import UsageError, did_you_mean
from harness.files import read_bytes
from impls.registry import IMPLS


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
    module = importlib.import_module(".".join(parts))
    if not _is_file_of(module, file):
        raise ImportError(f"{file} cannot be imported as {module.__name__}: that is {module.__file__}")
    return module


def _packages(file: Path) -> list[Path]:
    """Directories of the packages that contain the file, outermost first."""
    found: list[Path] = []
    for directory in file.parents:
        if not (directory / "__init__.py").is_file():
            break
        found.insert(0, directory)
    return found


def _run_file(name: str, file: Path) -> ModuleType:
    """Run the file as module `name`, or return the module if this file has been imported under that name."""
    known = sys.modules.get(name)
    if known is not None:
        if not _is_file_of(known, file):
            raise ImportError(f"{file} cannot be imported as {name}: that is {known.__file__}")
        return known
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

    `files` identifies the code of a user's own layer, as `files_of_class` returns it.
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
    module = load_file(Path(place)) if is_in_a_file(target) else importlib.import_module(place)
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


# Digest by file; the built-in layers share the single key `BUILTIN`. A run stores the digests to detect changed code.
Digests = Mapping[str, str]
BUILTIN = "impls/"
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_FOREIGN_DIRECTORIES = ("torch", "harness")
# Unrelated packages lie side by side in these directories.
_INSTALLED = ("site-packages", "dist-packages")
_SHOWN_DIGITS = 16


def files_of_class(layer_class: type) -> dict[str, str]:
    """Digests by file of a user's own layer. Call this in the process that imported the layer.

    The files are those of its class and base classes, and imported files from the same directories or the same package.
    Files of Python, torch and this harness are left out, as are packages that were installed beside the layer.
    """
    own = {base.__module__: sys.modules.get(base.__module__) for base in layer_class.__mro__}
    defining = {name: file for name, module in own.items() if (file := _file_of_module(name, module))}
    folders = {os.path.dirname(file) for file in defining.values()}
    folders = {folder for folder in folders if os.path.basename(folder) not in _INSTALLED}
    package = layer_class.__module__.partition(".")[0]
    files = set(defining.values())
    for name, module in list(sys.modules.items()):
        file = _file_of_module(name, module)
        if file and (name.partition(".")[0] == package or os.path.dirname(file) in folders):
            files.add(file)
    return {file: _digest([Path(file)]) for file in sorted(files)}


def files_of_builtin_layers() -> dict[str, str]:
    """One digest of all built-in layers, because they import each other."""
    (place,) = impls.__path__
    return {BUILTIN: _digest(sorted(Path(place).rglob("*.py")))}


def shown_digests(digests: Digests, directory: Path) -> dict[str, str]:
    """The digests with the names of files below `directory` relative to it.

    The directory and its layers can then move together.
    """
    return {_imported_from(file, directory): digest for file, digest in digests.items()}


def changed_files(before: Digests, now: Digests) -> list[str]:
    """Names of the files that were changed, added or removed."""
    return [file for file in dict.fromkeys([*before, *now]) if before.get(file) != now.get(file)]


def _file_of_module(name: str, module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or name.partition(".")[0] in _FOREIGN_DIRECTORIES:
        return None
    file = os.path.abspath(file)
    installed = any(f"{os.sep}{folder}{os.sep}" in file for folder in _INSTALLED)
    return None if file.startswith(_STDLIB) and not installed else file


def _imported_from(file: str, directory: Path) -> str:
    path = Path(file)
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else file


def _digest(files: list[Path]) -> str:
    """Digest of the contents of the files. An unreadable file counts as empty."""
    digest = hashlib.sha256()
    for content in _file_bytes(files):
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()[:_SHOWN_DIGITS]


def _file_bytes(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        try:
            yield read_bytes(file)
        except OSError:  # inside an archive, removed since, or not a regular file
            yield b""
