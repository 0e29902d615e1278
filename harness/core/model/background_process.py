"""Further Python interpreters: where they are, and where they import their code from."""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import UsageError
from .sweep_axes import OWN_ENVIRONMENT

# The directory that holds the packages `harness` and `impls`.
PLACE = Path(__file__).resolve().parents[3]
_PACKAGES = ("harness", "impls")


def search_path(path: Sequence[str]) -> list[str]:
    """A copy of `path` with `PLACE` before every other directory that has a package of the same name.

    Every process that the harness starts then imports the same code. One checkout may be installed in the environment
    while another one runs, for example from the current directory. The order is unchanged apart from that. At the
    front, `PLACE` could hide a module of the user.
    """
    for index, entry in enumerate(path):
        directory = Path(entry or os.curdir)
        if any((directory / package / "__init__.py").is_file() for package in _PACKAGES):
            return [*path] if directory.resolve() == PLACE else [*path[:index], str(PLACE), *path[index:]]
    return [*path, str(PLACE)]


# What trials need in an environment besides the standard library.
_NEEDED = ("torch", "numpy", "scipy")
_OLDEST, _OLDEST_TORCH = (3, 11), (2, 6)
# This runs under any Python 3: it prints its version, the needed packages that are missing, and the version of torch.
_EXAMINE = f"""
import importlib.util, json, sys
sys.path[:] = [entry for entry in sys.path if entry]
try:
    from importlib.metadata import version
    torch = version("torch")
except ImportError:
    torch = ""
lacking = [name for name in {_NEEDED!r} if importlib.util.find_spec(name) is None]
print(json.dumps([sys.version_info[:2], lacking, torch]))
"""


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution; None without it."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def interpreter_of(environment: str) -> str:
    """The absolute path of the interpreter of a virtual environment's directory, or of an interpreter given itself.

    Symbolic links stay, because the interpreter finds its environment by its own path. Raises UsageError without any.
    """
    place = Path(environment).expanduser()
    python = (place / "bin" / "python" if place.is_dir() else place).absolute()
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise UsageError(f"{environment} is neither an environment with bin/python nor an interpreter")
    return str(python)


def check_environments(environments: Sequence[str]) -> None:
    """Raise UsageError if one of a sweep's environments has no interpreter, or if two names are of the same one."""
    names = dict[tuple[Path, Path], str]()
    for name in environments:
        python = Path(sys.executable if name == OWN_ENVIRONMENT else interpreter_of(name))
        # The interpreter itself is shared: that of a virtual environment is mostly a link.
        other = names.setdefault((python.parent.resolve(), python.resolve()), name)
        if other != name or list(environments).count(name) > 1:
            text = f"{other} and {name} are the same environment" if other != name else f"{name} is given twice"
            raise UsageError(f"env={','.join(environments)}: {text}: leave one of them out")


def check_interpreter(python: str) -> None:
    """Raise UsageError unless trials can run under the interpreter: what it lacks, and where to install it."""
    import subprocess

    try:
        done = subprocess.run([python, "-c", _EXAMINE], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        version, lacking, torch = json.loads(done.stdout)
    except (OSError, ValueError) as error:
        raise UsageError(f"{python} cannot be run as a Python interpreter") from error
    if tuple(version) < _OLDEST:
        installed, needed = (".".join(map(str, parts)) for parts in (version, _OLDEST))
        raise UsageError(f"{python} is Python {installed}: trials need {needed} or newer")
    if lacking:
        raise UsageError(f"{python} has no {' and no '.join(lacking)}: install it there")
    if (numbers := re.match(r"(\d+)\.(\d+)", torch)) and (int(numbers[1]), int(numbers[2])) < _OLDEST_TORCH:
        raise UsageError(f"{python} has torch {torch}: trials need {'.'.join(map(str, _OLDEST_TORCH))} or newer")
