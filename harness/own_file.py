"""A module by its file: for layers that no import finds by name, as in the modules of somebody's tests.

A file in a package is imported as part of it, so that `from .others import …` works there; any other gets a name of its
own, which cannot be anybody else's.
"""

import hashlib
import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from harness.errors import did_you_mean


def load(file: Path) -> ModuleType:
    """The module in `file`, run once a process. Raises what running it raises; ImportError where it is none.

    FileNotFoundError, as it was named, where there is no such file.
    """
    if not file.is_file():
        beside = sorted(other.name for other in file.parent.glob("*.py")) if file.parent.is_dir() else []
        raise FileNotFoundError(f"there is no file {file}{did_you_mean(file.name, beside)}")
    file = file.absolute()
    packages = _packages(file)
    if not packages:
        mark = hashlib.sha256(str(file).encode()).hexdigest()[:12]
        return _run(f"_own_{mark}_{file.stem}", file)
    _run(packages[0].name, packages[0] / "__init__.py")
    parts = [package.name for package in packages] + [file.stem] * (file.stem != "__init__")
    module = importlib.import_module(".".join(parts))
    if not _is(module, file):
        raise ImportError(f"{file} cannot be imported as {module.__name__}: that is {module.__file__}")
    return module


def _packages(file: Path) -> list[Path]:
    """The directories of the packages that the file is in, the outermost first."""
    found: list[Path] = []
    for directory in file.parents:
        if not (directory / "__init__.py").is_file():
            break
        found.insert(0, directory)
    return found


def _run(name: str, file: Path) -> ModuleType:
    """The module of this name, run from the file unless it was before."""
    known = sys.modules.get(name)
    if known is not None:
        if not _is(known, file):
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


def _is(module: ModuleType, file: Path) -> bool:
    return module.__file__ is not None and Path(module.__file__).resolve() == file.resolve()
