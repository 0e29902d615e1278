"""Where every process of the harness imports its code from: the checkout of the driver."""

import os
from collections.abc import Sequence
from pathlib import Path

# The directory that holds the packages `harness` and `impls`.
PLACE = Path(__file__).resolve().parents[1]
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
            here = directory.resolve() == PLACE
            return [*path] if here else [*path[:index], str(PLACE), *path[index:]]
    return [*path, str(PLACE)]
