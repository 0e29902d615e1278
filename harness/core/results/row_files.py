"""The rows of a run, one line per trial: append them, and read them in parts for several processes.

Each row is on disk before the next trial starts. Reading holds one row at a time, and keeps of it only the data that
the line of its case needs: a run of any size fits into memory. An unreadable line is left
out without losing any other line, and so is a file that is a copy of another. Notices report both.
"""

import filecmp
import io
import json
import os
import platform
import re
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from sys import intern
from typing import Any

import orjson

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import AXES, Case

from .row import MOST_ROUND, REOPEN, InvalidRow, Row, StoredRow, check_case, read_row

SCHEMA = 2


def number_of(path: Path) -> int:
    """The number of the writer that created this file, from 1; 0 if the file name has no number."""
    number = re.match(r"(\d{4,})-", path.name)
    return int(number[1]) if number else 0


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

    def write(self, row: StoredRow) -> None:
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
            left = memoryview(line.encode("utf-8", "replace"))
            while left:  # a nearly full disk writes a part, and fails at the next write
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._file.seek(size))  # remove the part of an incomplete row
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._check_in_place(self._file)  # checked after the write, so that a renamed directory has this row too

    def _check_in_place(self, file: io.FileIO) -> None:
        """Raise UsageError unless `path` still names the open file."""
        mine = os.fstat(file.fileno())
        with suppress(FileNotFoundError, NotADirectoryError):
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

    def close(self) -> None:
        """Close the file. No row is lost if this is never called."""
        if self._file is not None:
            self._file.close()


def row_paths(run: Path) -> tuple[list[Path], list[str]]:
    """The files of the run's rows, in order, and a notice for each file that is left out, such as a copy of another.

    A writer numbers its file. Of two files with equal bytes, the one without a number is therefore the copy.
    """
    by_size = dict[int, list[Path]]()
    notices = []
    paths = (run / "rows").glob("[!.]*")
    for path in sorted(paths, key=lambda path: (number_of(path) == 0, _file_order(path))):
        if path.suffix != ".jsonl" or not path.is_file():  # reading a pipe would block, and a device never ends
            notices.append(f"{path}: not a regular .jsonl file, left out")
            continue
        size = path.stat().st_size
        alike = by_size.setdefault(size, [])
        original = next((earlier for earlier in alike if size and _same_bytes(earlier, path)), None)
        if original is None:
            alike.append(path)
        else:
            notices.append(f"{path}: a copy of {original.name}, left out")
    return sorted(chain(*by_size.values()), key=_file_order), notices


def _same_bytes(path: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(path, other, shallow=False)
    except OSError:  # the reader reports the unreadable file
        return False


def _file_order(path: Path) -> tuple[int, str]:
    """Sort key: the order in which the writers of the files started."""
    return number_of(path), path.name


# Number of unreadable lines that are named one by one.
NAMED = 10
# A row of a sweep has some kilobytes. A longer line is read in parts, none of which is a whole row.
_LONGEST_LINE = 2**24
_NO_CASE = "a row of no case"


@dataclass
class SkippedLines:
    """The lines of a run that are no rows: a sentence for each of the first, and the number of others by reason."""

    named: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path, number: int, why: str) -> None:
        """Count line `number` of the file as skipped. The first line is number 1."""
        if len(self.named) < NAMED:
            self.named.append(f"{path}:{number}: {why}, left out")
        else:
            self.others[why] += 1

    def notices(self) -> list[str]:
        """A notice for each of the first skipped lines, with file and number, and one that counts the others."""
        more = ", ".join(f"{number:,} × {why}" for why, number in self.others.items())
        return [*self.named, f"left out beside these: {more}"] if more else self.named


def read_file(path: Path, take: Callable[[StoredRow], None], skipped: SkippedLines) -> None:
    """Call `take` with every whole row of this schema. It raises InvalidRow if the row does not count."""
    number = 0
    try:
        with path.open("rb", buffering=2**20) as file:
            for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
                try:
                    take(_row_in(line))
                except InvalidRow as error:
                    skipped.add(path, number, str(error))
    except OSError as error:  # a bad sector of the disk, or no regular file
        skipped.add(path, number + 1, f"cannot be read from here on ({error.strerror})")


def _row_in(line: bytes) -> StoredRow:
    """The row in a line. Raises InvalidRow if it is not whole, or of another schema."""
    try:
        row = orjson.loads(line)
    except ValueError as error:
        raise InvalidRow("not a whole row") from error
    schema = row.get("schema") if isinstance(row, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise InvalidRow(f"a row of a newer schema than {SCHEMA}, to be read by a newer harness")
    if schema != SCHEMA:
        raise InvalidRow(f"not a row of schema {SCHEMA}")
    return row


Axes = tuple[Any, ...]
_axes = itemgetter(*AXES)


class RunAccumulator:
    """The data kept of all rows of a run, in their order.

    `cases` numbers the cases by their axes. Other attributes have these numbers as keys or indices:

    - The last named family (`families`).
    - The first failure, status and reason, since the case was last reopened (`failures`).
    - The layer's own axes, as the last failure names them (`own_axes`).
    - The hosts that timed the case (`hosts`).
    - Why no CUDA graph of the case was timed, in the first trial that says so (`graph_notes`).
    - The first trial that counts, for a case that was timed anew (`since`).
    - The highest round in any row, whether its trial counts or not (`rounds`).
    - The facts, as the cells of `FACTS`, in which all rows agree (`facts`).
    - The compile time in seconds, or None if rows differ (`compiles_s`).

    Timed trials are kept in the order of the rows: the case (`trial_cases`), the round (`trial_rounds`), the name of
    the file (`trial_files`) and the `RECORD` (`records`) of each. All other rows are kept in `others`, with the case
    and the file. `file` is the one that is read.
    """

    def __init__(self) -> None:
        self.cases: dict[Axes, int] = {}
        self.families: dict[int, str] = {}
        self.failures: dict[int, tuple[str, str | None]] = {}
        self.own_axes: dict[int, str | None] = {}
        self.hosts: dict[int, tuple[str, ...]] = {}
        self.graph_notes: dict[int, str] = {}
        self.since: dict[int, int] = {}
        self.rounds: dict[int, int] = {}
        self.facts: dict[int, tuple[Any, ...]] = {}
        self.compiles_s: dict[int, float | None] = {}
        self.others: list[tuple[int, Row, str]] = []
        self.trial_cases = array("q")
        self.trial_rounds = array("q")
        self.records = array("d")
        self.trial_files: list[str] = []
        self.file = ""
        self._axes_of: dict[str, Any] = {}  # the axes of the case with this key

    def add(self, row: StoredRow) -> None:
        """Add a row. Raises InvalidRow, and adds nothing, if a value is missing, invalid or contradictory.

        Every row names its case, and its key is none of another case. `read_row` has the other rules.
        """
        read = read_row(row)
        self._check_key(row)
        case = self._number(row.get("case"), read.status)
        family, purpose, number, status, *_, value = read
        self.families[case] = family
        if purpose == "time" and self.rounds.get(case, 0) < number < MOST_ROUND:
            self.rounds[case] = number
        if purpose == "time" and status == "ok":
            host, note, hosts = row.get("host"), row.get("graph_note"), self.hosts.get(case, ())
            if isinstance(host, str) and host not in hosts:
                self.hosts[case] = (*hosts, intern(host))
            if isinstance(note, str):
                self.graph_notes.setdefault(case, intern(note))
            self.trial_cases.append(case)
            self.trial_rounds.append(number)
            self.trial_files.append(self.file)
            self.records += value
        else:
            self._enter(case, read)

    def _enter(self, case: int, row: Row) -> None:
        """Enter a row that is no timed trial."""
        self.others.append((case, row, self.file))
        if row.purpose == REOPEN:
            self.failures.pop(case, None)
            if row.anew:
                self.since[case] = len(self.trial_cases)
                self.hosts.pop(case, None)
                self.graph_notes.pop(case, None)
        if row.status != "ok":
            self.failures.setdefault(case, (row.status, row.reason))
            self.own_axes[case] = row.value
        elif row.purpose == "facts":
            earlier = self.facts.setdefault(case, row.value)
            if earlier != row.value:
                alike = [cell if cell == other else None for cell, other in zip(earlier, row.value, strict=True)]
                self.facts[case] = *alike[:-1], "two rows of its facts differ"
        elif row.purpose == "compile" and self.compiles_s.setdefault(case, row.value) != row.value:
            self.compiles_s[case] = None

    def _check_key(self, row: StoredRow) -> None:
        """Raise InvalidRow if the row has a key that is not made of the axes of its case."""
        key, case = row.get("key"), row.get("case")
        if key is None or self._axes_of.get(str(key)) == case:
            return
        if not isinstance(case, dict) or key != " ".join(f"{name}={value}" for name, value in case.items()):
            raise InvalidRow("its key is of another case")
        self._axes_of[key] = case

    def _number(self, data: Any, status: str) -> int:
        """The number of the case with these axes. Raises InvalidRow if `data` is no case that can have the status."""
        # A new case, a missing or unhashable axis, or `data` is not a mapping.
        with suppress(KeyError, TypeError):
            return self.cases[_axes(data)]
        try:
            case = Case.from_dict(data)
            check_case(case, status)
        except (KeyError, TypeError, UsageError, InvalidRow) as error:
            raise InvalidRow(_NO_CASE) from error
        # Every parsed row brings its own strings; interning keeps one copy of equal ones.
        axes = tuple(intern(value) if type(value) is str else value for value in map(case.__getattribute__, AXES))
        return self.cases.setdefault(axes, len(self.cases))


def read_run(run: Path) -> tuple[RunAccumulator, list[str]]:
    """Accumulate all rows of a run. Return the accumulator and a notice for each invalid line and each copied file."""
    accumulated = RunAccumulator()
    skipped = SkippedLines()
    paths, notices = row_paths(run)
    for path in paths:
        accumulated.file = path.name
        read_file(path, accumulated.add, skipped)
    return accumulated, [*notices, *skipped.notices()]
