"""Append rows to a run: one line per trial, each on disk before the next trial starts."""

import contextlib
import io
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError

SCHEMA = 2
_NUMBERED = re.compile(r"(\d{4,})-")


def number_of(path: Path) -> int:
    """The number of the writer that created this file, from 1; 0 if the file name has no number."""
    found = _NUMBERED.match(path.name)
    return int(found[1]) if found else 0


class RowWriter:
    """Appends rows to its own file under `rows/`, one line per trial, each on disk at once.

    Each row names the host that wrote it.

    Files are numbered in the order of their writers, independent of the clock, and are read in that order. A second
    writer never appends to a file, because the last line might be torn.
    """

    def __init__(self, run: Path) -> None:
        rows = run / "rows"
        self._run = run
        number = 1 + max(map(number_of, rows.glob("*.jsonl")), default=0)
        self._host = platform.node()  # as in machine.json
        self.path = rows / f"{number:04d}-{self._host}-{os.getpid()}.jsonl"
        self._file: io.FileIO | None = None  # None until the first row

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row and return once it is on disk. Raises OSError with the name of the file.

        Raises UsageError if the directory of the run was removed, renamed or replaced since the writer was created.
        """
        line = json.dumps({"schema": SCHEMA, "host": self._host, **row}, ensure_ascii=False) + "\n"
        # A path in an error message may hold bytes that are not UTF-8. They become question marks, not an error.
        if self._file is None:
            # Unbuffered: a row is a single write, so a reader finds all of the row or nothing.
            try:
                self._file = self.path.open("xb", buffering=0)
            except FileNotFoundError as error:
                raise UsageError(f"out={self._run} was removed or renamed before its first row was written") from error
        size = self._file.tell()
        try:
            self._append(self._file, line.encode("utf-8", "replace"))
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._file.seek(size))  # remove the part of an incomplete row
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._check_in_place(self._file)  # checked after the write, so that a renamed directory has this row too

    def _check_in_place(self, file: io.FileIO) -> None:
        """Raise UsageError unless `path` still names the open file."""
        mine = os.fstat(file.fileno())
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(mine, self.path.stat()):
                return
        if mine.st_nlink == 0:
            raise UsageError(f"out={self._run} was removed during the sweep: its rows are gone")
        try:
            now = Path(os.readlink(f"/proc/self/fd/{file.fileno()}"))
        except OSError as error:  # no /proc
            raise UsageError(f"out={self._run} was renamed during the sweep: its rows are in the new place") from error
        if now.parent.name != "rows":
            raise UsageError(
                f"out={self._run}: its rows were moved to {now.parent} during the sweep: move them back, "
                "and run the same command to continue"
            )
        raise UsageError(
            f"out={self._run} was renamed during the sweep: its rows are in {now.parent}; "
            f"run the same command with 'out={now.parents[1]}' to continue"
        )

    @staticmethod
    def _append(file: io.FileIO, line: bytes) -> None:
        left = memoryview(line)
        while left:  # a nearly full disk writes a part, and fails at the next write
            left = left[file.write(left) :]
        os.fsync(file.fileno())

    def close(self) -> None:
        """Close the file. No row is lost if this is never called."""
        if self._file is not None:
            self._file.close()
