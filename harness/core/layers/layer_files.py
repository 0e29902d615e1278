"""Digests of a layer's files, by which a run detects that its code was changed."""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import impls
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
    own = {base.__module__: sys.modules.get(base.__module__) for base in layer_class.__mro__}
    defining = {name: file for name, module in own.items() if (file := _file_of_module(name, module))}
    folders = {os.path.dirname(file) for file in defining.values() if Path(file).parent.name not in INSTALLED}
    package = layer_class.__module__.partition(".")[0]
    files = set(defining.values())
    for name, module in list(sys.modules.items()):
        file = _file_of_module(name, module)
        if file and (name.partition(".")[0] == package or os.path.dirname(file) in folders):
            files.add(file)
    return {file: _digest([Path(file)]) for file in sorted(files)}


def imported_files() -> list[str]:
    """The files of all modules that this process has imported, without those of Python, torch, harness and packages."""
    files = {_file_of_module(name, module) for name, module in list(sys.modules.items())}
    return sorted(file for file in files if file and not is_installed(file))


def files_of_builtin_layers() -> dict[str, str]:
    """One digest of all built-in layers, because they import each other."""
    return {BUILTIN: _digest(_builtin_files(None))}


def builtin_digests(path: Sequence[str] | None) -> dict[str, str]:
    """Digests by file of all built-in layers, which a search along `path` finds; None is this process's own."""
    return {str(file): _digest([file]) for file in _builtin_files(path)}


def _builtin_files(path: Sequence[str] | None) -> list[Path]:
    spec = PathFinder.find_spec("impls", path) if path else None
    (place,) = (spec and spec.submodule_search_locations) or impls.__path__
    return sorted(Path(place).rglob("*.py"))


def shown_digests(digests: Digests, directory: Path) -> dict[str, str]:
    """The digests with the names of files below `directory` relative to it.

    The directory and its layers can then move together.
    """
    return {
        str(path.relative_to(directory)) if (path := Path(file)).is_relative_to(directory) else file: digest
        for file, digest in digests.items()
    }


def changed_files(before: Digests, now: Digests) -> list[str]:
    """Names of the files that were changed, added or removed."""
    return [file for file in dict.fromkeys([*before, *now]) if before.get(file) != now.get(file)]


def files_unlike(digests: Digests) -> list[str]:
    """Names of the files whose content does not have these digests. A file that was not written is not read again."""
    written_at = {file: os.path.exists(file) and os.path.getmtime(file) for file in digests}
    return [file for file, digest in digests.items() if _digest_of_version(file, written_at[file]) != digest]


@cache
def _digest_of_version(file: str, written_at: float) -> str:
    return _digest([Path(file)])


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


def _digest(files: list[Path]) -> str:
    """Digest of the contents of the files. An unreadable file counts as empty."""
    digest = hashlib.sha256()
    for file in files:
        try:
            content = read_bytes(file)
        except OSError:  # inside an archive, removed since, or not a regular file
            content = b""
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()[:_SHOWN_DIGITS]
