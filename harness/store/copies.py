"""Find files of rows that were copied within a run. Each copy is left out and reported in one line."""

import filecmp
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from harness.store.writer import number_of


def without_copies(paths: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The files in their order, without those that have the same bytes as another, and a notice for each copy.

    A writer numbers its file. Of two equal files, the one without a number is therefore the copy.
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
    """The size of the file in bytes; 1 for an unreadable file, so that its reader reports the error."""
    try:
        return path.stat().st_size
    except OSError:  # a broken link
        return 1


def _same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:  # the reader reports the unreadable file
        return False


def _order(path: Path) -> tuple[int, str]:
    """Sort key: the order in which the writers of the files started."""
    return number_of(path), path.name
