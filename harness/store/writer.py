"""Rows appended to a run, one line a trial, each on disk before the next trial starts."""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = 2


class RowWriter:
    """Appends rows to a file of its own under `rows/`: one writer a file, one line a trial, each on disk at once."""

    def __init__(self, run: Path) -> None:
        name = f"{socket.gethostname()}-{os.getpid()}.jsonl"
        self.path = run / "rows" / name
        # Unbuffered: a row is one write, and a reader meanwhile finds it whole or not at all.
        self._file = self.path.open("ab", buffering=0)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row and have the disk hold it before returning."""
        line = json.dumps({"schema": SCHEMA, **row}, ensure_ascii=False) + "\n"
        # A path in some error's text may hold bytes that are no UTF-8: a question mark each, and not a sweep that ends.
        left = memoryview(line.encode("utf-8", "replace"))
        while left:  # a disk that is nearly full takes a part, and says so at the next
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; nothing is lost by not getting here."""
        self._file.close()
