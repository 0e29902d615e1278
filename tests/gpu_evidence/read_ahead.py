"""Read once what many processes will read: compiled modules, the fonts of plots, and torch's libraries on disk."""

import compileall
import importlib.util
from pathlib import Path

from gpu_evidence.parts import ROOT

_AT_ONCE_BYTES = 2**24
_PACKAGES = ("hydra", "omegaconf", "pydantic", "antlr4")


def _folders(package: str) -> list[Path]:
    found = importlib.util.find_spec(package)
    return [Path(folder) for folder in (found.submodule_search_locations or ())] if found else []


def _read(file: Path) -> None:
    with file.open("rb") as opened:
        while opened.read(_AT_ONCE_BYTES):
            pass


def main() -> None:
    """Read in the order in which a sweep needs it."""
    for folder in (ROOT / "harness", ROOT / "impls", *(at for name in _PACKAGES for at in _folders(name))):
        compileall.compile_dir(folder, quiet=2)
    importlib.import_module("matplotlib.font_manager")
    for folder in _folders("torch"):
        for library in [*folder.glob("lib/*.so*"), *folder.parent.glob("nvidia/*/lib/*.so*")]:
            _read(library)


if __name__ == "__main__":
    main()
