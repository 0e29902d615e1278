"""Where this harness and its layers are, so that every process it starts imports the same code.

An environment may have one checkout installed while another one runs, from the current directory for instance.
"""

import os
from collections.abc import Sequence
from pathlib import Path

# The directory that holds the packages `harness` and `impls`.
PLACE = Path(__file__).resolve().parents[1]
_PACKAGES = ("harness", "impls")


def search_path(path: Sequence[str]) -> list[str]:
    """The `sys.path` with `PLACE` before every other directory that has a package of the same name.

    Elsewhere the order stays: in front of all, `PLACE` could hide a module of the user's.
    """
    for index, entry in enumerate(path):
        directory = Path(entry or os.curdir)
        if any((directory / package / "__init__.py").is_file() for package in _PACKAGES):
            here = directory.resolve() == PLACE
            return [*path] if here else [*path[:index], str(PLACE), *path[index:]]
    return [*path, str(PLACE)]
