"""The files that define a layer, with a digest of each. A run stores them to detect changed code.

A user's own layer consists of the files that define its class and base classes. Imported files from the same
directories or the same package are part of the layer as well. Files of Python, torch and this harness are not,
and neither are packages that were installed beside the layer.
"""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import impls
from harness.bounded_file import read_bytes

# Digest by file; the built-in layers share the single key `OURS`.
Digests = Mapping[str, str]
OURS = "impls/"
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_OTHERS = ("torch", "harness")
# Unrelated packages lie side by side in these directories.
_INSTALLED = ("site-packages", "dist-packages")
_SHOWN = 16


def of_class(layer_class: type) -> dict[str, str]:
    """Digests by file. Call this in the process that imported the layer."""
    own = {base.__module__: sys.modules.get(base.__module__) for base in layer_class.__mro__}
    defining = {name: file for name, module in own.items() if (file := _file_of(name, module))}
    folders = {os.path.dirname(file) for file in defining.values()}
    folders = {folder for folder in folders if os.path.basename(folder) not in _INSTALLED}
    package = layer_class.__module__.partition(".")[0]
    files = set(defining.values())
    for name, module in list(sys.modules.items()):
        file = _file_of(name, module)
        if file and (name.partition(".")[0] == package or os.path.dirname(file) in folders):
            files.add(file)
    return {file: _digest([Path(file)]) for file in sorted(files)}


def of_ours() -> dict[str, str]:
    """One digest of all built-in layers, because they import each other."""
    (place,) = impls.__path__
    return {OURS: _digest(sorted(Path(place).rglob("*.py")))}


def as_told(digests: Digests, directory: Path) -> dict[str, str]:
    """The digests with the names of files below `directory` relative to it.

    The directory and its layers can then move together.
    """
    return {_from(file, directory): digest for file, digest in digests.items()}


def changed(before: Digests, now: Digests) -> list[str]:
    """Names of the files that were changed, added or removed."""
    return [file for file in dict.fromkeys([*before, *now]) if before.get(file) != now.get(file)]


def _file_of(name: str, module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or name.partition(".")[0] in _OTHERS:
        return None
    file = os.path.abspath(file)
    installed = any(f"{os.sep}{folder}{os.sep}" in file for folder in _INSTALLED)
    return None if file.startswith(_STDLIB) and not installed else file


def _from(file: str, directory: Path) -> str:
    path = Path(file)
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else file


def _digest(files: list[Path]) -> str:
    """Digest of the contents of the files. An unreadable file counts as empty."""
    digest = hashlib.sha256()
    for content in _contents(files):
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()[:_SHOWN]


def _contents(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        try:
            yield read_bytes(file)
        except OSError:  # inside an archive, removed since, or not a regular file
            yield b""
