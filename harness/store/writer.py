"""Rows appended to a run, one line a trial, each on disk before the next trial starts."""

import io
import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = 2
_NUMBERED = re.compile(r"(\d{4,})-")


def number_of(path: Path) -> int:
    """The which-th writer of its run left this file; 0 of one that carries no number."""
    found = _NUMBERED.match(path.name)
    return int(found[1]) if found else 0


class RowWriter:
    """Appends rows to a file of its own under `rows/`: one writer a file, one line a trial, each on disk at once.

    Files are numbered as their writers follow each other, whatever the clock says meanwhile, and are read in that
    order; none is ever appended to by a second writer, which might find a torn line at its end.
    """

    def __init__(self, run: Path) -> None:
        rows = run / "rows"
        number = 1 + max(map(number_of, rows.glob("*.jsonl")), default=0)
        self.path = rows / f"{number:04d}-{socket.gethostname()}-{os.getpid()}.jsonl"
        self._file: io.FileIO | None = None  # until there is a row

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row and have the disk hold it before returning."""
        line = json.dumps({"schema": SCHEMA, **row}, ensure_ascii=False) + "\n"
        # A path in some error's text may hold bytes that are no UTF-8: a question mark each, and not a sweep that ends.
        if self._file is None:
            # Unbuffered: a row is one write, and a reader meanwhile finds it whole or not at all.
            self._file = self.path.open("xb", buffering=0)
        left = memoryview(line.encode("utf-8", "replace"))
        while left:  # a disk that is nearly full takes a part, and says so at the next
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; nothing is lost by not getting here."""
        if self._file is not None:
            self._file.close()
