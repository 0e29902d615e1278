"""Rows appended to a run, one line a trial, each on disk before the next trial starts."""

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
    """The which-th writer of its run left this file; 0 of one that carries no number."""
    found = _NUMBERED.match(path.name)
    return int(found[1]) if found else 0


class RowWriter:
    """Appends rows to a file of its own under `rows/`: one writer a file, one line a trial, each on disk at once.

    Each row says on which host it was written.

    Files are numbered as their writers follow each other, whatever the clock says meanwhile, and are read in that
    order; none is ever appended to by a second writer, which might find a torn line at its end.
    """

    def __init__(self, run: Path) -> None:
        rows = run / "rows"
        self._run = run
        number = 1 + max(map(number_of, rows.glob("*.jsonl")), default=0)
        self._host = platform.node()  # as in machine.json
        self.path = rows / f"{number:04d}-{self._host}-{os.getpid()}.jsonl"
        self._file: io.FileIO | None = None  # until there is a row

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row and have the disk hold it before returning. Raises OSError, with the file's name.

        Raises UsageError if the run's directory was removed, renamed or replaced since the writer was made.
        """
        line = json.dumps({"schema": SCHEMA, "host": self._host, **row}, ensure_ascii=False) + "\n"
        # A path in some error's text may hold bytes that are no UTF-8: a question mark each, and not a sweep that ends.
        if self._file is None:
            # Unbuffered: a row is one write, and a reader meanwhile finds it whole or not at all.
            try:
                self._file = self.path.open("xb", buffering=0)
            except FileNotFoundError as error:
                raise UsageError(f"out={self._run} was removed or renamed before its first row was written") from error
        size = self._file.tell()
        try:
            self._append(self._file, line.encode("utf-8", "replace"))
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._file.seek(size))  # of a row that is not whole nothing had better be there
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._check_in_place(self._file)  # afterwards: a renamed directory then has this row too

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
        raise UsageError(
            f"out={self._run} was renamed during the sweep: its rows are in {now.parent}; "
            f"run the same command with 'out={now.parents[1]}' to continue"
        )

    @staticmethod
    def _append(file: io.FileIO, line: bytes) -> None:
        left = memoryview(line)
        while left:  # a disk that is nearly full takes a part, and says so at the next
            left = left[file.write(left) :]
        os.fsync(file.fileno())

    def close(self) -> None:
        """Close the file; nothing is lost by not getting here."""
        if self._file is not None:
            self._file.close()
