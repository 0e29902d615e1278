"""Import a module by its file, for layers that cannot be imported by name, such as those in test modules.

A file inside a package is imported as part of the package, so `from .others import …` works in it. Any other file
gets a unique module name.
"""

import hashlib
import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from harness.errors import did_you_mean


def load(file: Path) -> ModuleType:
    """Import the module in `file`, at most once per process.

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
        return _run(f"_own_{mark}_{file.stem}", file)
    _run(packages[0].name, packages[0] / "__init__.py")
    parts = [package.name for package in packages] + [file.stem] * (file.stem != "__init__")
    module = importlib.import_module(".".join(parts))
    if not _is(module, file):
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


def _run(name: str, file: Path) -> ModuleType:
    """Run the file as module `name`, or return the module if this file has been imported under that name."""
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
