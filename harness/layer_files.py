"""The code of a layer, as a run remembers it: its files and a digest of each, so that changed code is told.

Of somebody's own layer that is what its class and bases are written in, and what came with it from beside it or out of
the same package. Python's own files, torch's and those that were installed beside a layer are not a layer's code.
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

# By file, or by what our layers are called together.
Digests = Mapping[str, str]
OURS = "impls/"
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_OTHERS = ("torch", "harness")
# Where files lie side by side that have nothing to do with each other.
_INSTALLED = ("site-packages", "dist-packages")
_SHOWN = 16


def of_class(layer_class: type) -> dict[str, str]:
    """By file: to be asked in the process that the layer was imported in."""
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
    """Of all our layers at once: they lean on each other."""
    (place,) = impls.__path__
    return {OURS: _digest(sorted(Path(place).rglob("*.py")))}


def as_told(digests: Digests, directory: Path) -> dict[str, str]:
    """The same with files below `directory` named from there, so that both may be moved together."""
    return {_from(file, directory): digest for file, digest in digests.items()}


def changed(before: Digests, now: Digests) -> list[str]:
    """The files that are others now, new or gone."""
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
    """Of what is in them; one that cannot be read counts as empty."""
    digest = hashlib.sha256()
    for content in _contents(files):
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()[:_SHOWN]


def _contents(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        try:
            yield read_bytes(file)
        except OSError:  # inside an archive, removed since, or no regular file
            yield b""
