"""What is known of layers by their files: digests, pages of our layers, and the layers that a user's module holds.

A run detects by digests that a layer's code was changed. Nothing here imports a layer, since importing torch takes a
second: `impls/descriptions.json` repeats what the classes of our layers allow and say.
"""

import ast
import difflib
import hashlib
import json
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import impls
from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_bytes

# Digest by file; the built-in layers share the single key `BUILTIN`. A run stores the digests to detect changed code.
Digests = Mapping[str, str]
BUILTIN = "impls/"
STDLIB = sysconfig.get_path("stdlib") + os.sep
_NOT_USER_PACKAGES = ("torch", "harness")
# Unrelated packages lie side by side in these directories.
INSTALLED = ("site-packages", "dist-packages")
_SHOWN_DIGITS = 16


def files_of_class(layer_class: type) -> dict[str, str]:
    """Digests by file of a user's own layer. Call this in the process that imported the layer.

    The files are those of its class and base classes, and imported files from the same directories or the same package.
    Files of Python, torch and this harness are left out, as are packages that were installed beside the layer.
    """
    modules = {base.__module__ for base in layer_class.__mro__}
    files = set(filter(None, (_file_of_module(name, sys.modules.get(name)) for name in modules)))
    folders = {os.path.dirname(file) for file in files if Path(file).parent.name not in INSTALLED}
    package = layer_class.__module__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        file = _file_of_module(name, module)
        if file and (name.partition(".")[0] == package or os.path.dirname(file) in folders):
            files.add(file)
    return {file: digest([Path(file)]) for file in sorted(files)}


def imported_files() -> list[str]:
    """The files of all modules that this process has imported, without those of Python, torch, harness and packages."""
    files = {_file_of_module(name, module) for name, module in list(sys.modules.items())}
    return sorted(file for file in files if file and not is_installed(file))


def builtin_files(path: Sequence[str] | None = None) -> list[Path]:
    """The files of all built-in layers, which a search along `path` finds; None is this process's own."""
    spec = PathFinder.find_spec("impls", path) if path else None
    (place,) = (spec and spec.submodule_search_locations) or impls.__path__
    return sorted(Path(place).rglob("*.py"))


def shown_digests(digests: Digests, directory: Path) -> dict[str, str]:
    """The digests with the names of files below `directory` relative to it.

    The directory and its layers can then move together.
    """
    shown = {}
    for file, digest in digests.items():
        path = Path(file)
        shown[str(path.relative_to(directory)) if path.is_relative_to(directory) else file] = digest
    return shown


def changed_files(before: Digests, now: Digests) -> list[str]:
    """Names of the files that were changed, added or removed."""
    return [file for file in dict.fromkeys([*before, *now]) if before.get(file) != now.get(file)]


def files_unlike(digests: Digests) -> list[str]:
    """Names of the files whose content does not have these digests. A file that was not written is not read again."""
    written_at = {file: os.path.exists(file) and os.path.getmtime(file) for file in digests}
    return [file for file, digest in digests.items() if _digest_of_version(file, written_at[file]) != digest]


@cache
def _digest_of_version(file: str, written_at: float) -> str:
    return digest([Path(file)])


def _file_of_module(name: str, module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or name.partition(".")[0] in _NOT_USER_PACKAGES:
        return None
    file = os.path.abspath(file)
    return None if file.startswith(STDLIB) and not is_installed(file) else file


def is_of_user(module: str) -> bool:
    """Whether an imported module is no part of Python, torch, this harness or an installed package."""
    return bool((file := _file_of_module(module, sys.modules.get(module))) and not is_installed(file))


def is_installed(file: str) -> bool:
    """Whether the file lies where Python installs packages."""
    return any(f"{os.sep}{folder}{os.sep}" in file for folder in INSTALLED)


def digest(files: list[Path]) -> str:
    """Digest of the contents of the files. An unreadable file counts as empty."""
    digest = hashlib.sha256()
    for file in files:
        try:
            content = read_bytes(file)
        except OSError:  # inside an archive, removed since, or not a regular file
            content = b""
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()[:_SHOWN_DIGITS]


_DESCRIPTIONS = Path(impls.__path__[0], "descriptions.json")
# Attributes that describe a class or a function, and would be ignored if misspelt, each with the type of its value.
_OF_BOTH: dict[str, Any] = {
    **dict.fromkeys(("claims", "kernels", "axes"), Mapping),
    **dict.fromkeys(("has_heads", "causal", "compiled", "kinks"), bool),
    "family": str,
    "output_dtype": str,
    "reference": Callable | str | None,
    "allowed_error": float | int,
}
OF_CLASSES = _OF_BOTH | {"needs_source": bool, "input_width": int, "supports": staticmethod}
OF_FUNCTIONS = _OF_BOTH | {
    **dict.fromkeys(("supports", "prepare", "load_package"), Callable),
    "inputs": Mapping,
    "output": str,
    "layout": str,
    "lengths_as": str,
    "decodes": bool,
}


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    return json.loads(_DESCRIPTIONS.read_text(encoding="utf-8"))


def read_layer_source(target: str) -> dict[str, Any]:
    """What a class or function of ours allows and says, as its page shows it, from `module:name`.

    - `place`: its file and line. `equation`: the first one in its docstrings, or in those of its reference.
    - `modes`, `masks`: those that it can run, the masks without a source.
    - `takes`: the further sizes that it takes, and `kv_len` for a source. `causal`: its attribute.
    - `limits`: what the docstring of `supports` tells.

    Raises UsageError if nothing is stored of it.
    """
    module, _, name = target.partition(":")
    file = f"{module.replace('.', '/')}.py"
    if target not in _descriptions():
        raise UsageError(
            f"{_DESCRIPTIONS.name} lacks {target}: `python -m pytest tests/impls --snapshot-update` adds it"
        )
    source = (_DESCRIPTIONS.parents[1] / file).read_text(encoding="utf-8")
    above = re.split(rf"^(?:class|def) {name}\b", source, maxsplit=1, flags=re.MULTILINE)[0]
    line = above.count("\n") + 1
    return {"place": f"{file}:{line}", **_descriptions()[target]}


# One letter off, or two that are swapped, in names of four letters or more.
_ALIKE = 0.75


def misspelt(attributes: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, str]:
    """The names of given attributes that are misspelt, each with the known name that it means.

    It is much alike, and the value has the known type. A value of another type is taken for the
    user's own attribute, and so is a name beside the known one.
    """
    lacking = {meant: kind for meant, kind in types.items() if meant not in attributes}
    meanings = {}
    for name, value in attributes.items():
        for meant, kind in lacking.items():
            is_named = name in types or name[0] == "_"
            is_similar = not is_named and difflib.get_close_matches(name, [meant], cutoff=_ALIKE)
            if is_similar and isinstance(value, kind):
                meanings[name] = meant
    return meanings


def find_layers(name: str) -> tuple[str, str, list[str]]:
    """Find the module of a user's own layer in a name without a colon, such as `their.module.Layer`.

    Return the module as it is written before the colon, the rest of the name, and the module's public classes and
    functions. The module is empty if there is none. No package is imported, since it could import torch.
    """
    if "/" in name or name.endswith(".py"):
        place = f"{'' if '/' in name else './'}{name.removesuffix('.py')}.py"
        return (place, "", _public_names(Path(place))) if Path(place).is_file() else ("", "", [])
    parts, path, file = name.split("."), None, None
    for count, part in enumerate(parts, 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path) if part.isidentifier() else None
        if spec is None or parts[0] in sys.stdlib_module_names:
            break
        if spec.origin is not None and spec.origin.endswith(".py"):
            module, attribute, file = ".".join(parts[:count]), ".".join(parts[count:]), Path(spec.origin)
        path = spec.submodule_search_locations
        if path is None:
            break
    return ("", "", []) if file is None else (module, attribute, _public_names(file))


def _public_names(file: Path) -> list[str]:
    try:
        tree = ast.parse(read_bytes(file))
    except (OSError, SyntaxError, ValueError):  # nothing can be suggested; an import says what is wrong
        return []
    defined = (node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return [name for name in defined if not name.startswith("_")]
