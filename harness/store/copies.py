"""Files of rows that somebody has copied within a run: of each the copy is left out, and told in one line."""

import filecmp
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from harness.store.writer import number_of


def without_copies(paths: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The files without those that hold the same bytes as an earlier one, in their order, and a notice for each.

    A file that carries no number was not named by a writer: it is the copy, and not the numbered one.
    """
    kept, notices = [], []
    sizes = {path: size_of(path) for path in paths}
    by_size = sorted(sizes, key=lambda path: (sizes[path], number_of(path) == 0, _order(path)))
    for size, alike in groupby(by_size, key=sizes.__getitem__):
        originals: list[Path] = []
        for path in alike:
            original = next((one for one in originals if size and _same(one, path)), None)
            if original is None:
                originals.append(path)
            else:
                notices.append(f"{path}: a copy of {original.name}, left out")
        kept += originals
    return sorted(kept, key=_order), notices


def size_of(path: Path) -> int:
    """The size of the file in bytes; 1 for a file that cannot be read, so that its reader says why."""
    try:
        return path.stat().st_size
    except OSError:  # a link to nothing
        return 1


def _same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:  # what cannot be read is told where it is read
        return False


def _order(path: Path) -> tuple[int, str]:
    """By when its writer came."""
    return number_of(path), path.name
