"""Read the rows of a run line by line, in parts for several processes. No row is held longer than needed.

A notice names each unreadable line by file and number. No other line is lost. If there are very many, notices name the
first few and count the others.
"""

import errno
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from harness.store.copies import without_copies
from harness.store.writer import SCHEMA

# Number of unreadable lines that are named one by one.
NAMED = 10
_BLOCK = 2**20
# A row of a sweep has some kilobytes. A longer line is skipped, block by block.
_LONGEST_LINE = 16 * 2**20
_MOST_SKIPPED = 2**28

_TORN = "not a whole row"
_TOO_LONG = f"a line of more than {_LONGEST_LINE // 2**20} MiB"
_FOREIGN = f"not a row of schema {SCHEMA}"
_NEWER = f"a row of a newer schema than {SCHEMA}, to be read by a newer harness"
_INCOMPLETE = "a row without what every row must hold"


@dataclass(frozen=True)
class Part:
    """The lines of one file that begin in the half-open range from `start` to `end`, in bytes."""

    path: Path
    start: int
    end: int


@dataclass
class Reading:
    """The result of reading a part: its number of lines, the skipped lines by reason, and the first skipped ones."""

    part: Part
    lines: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    first: list[tuple[int, str]] = field(default_factory=list)

    def leave_out(self, number: int, why: str) -> None:
        """Count line `number` of the part as skipped. The first line is number 1."""
        self.left_out[why] += 1
        if len(self.first) < NAMED:
            self.first.append((number, why))


def parts(run: Path, number: int) -> list[list[Part]]:
    """Divide all lines of the run's rows, in order, into at most `number` shares of about the same size in bytes.

    Files that are copies of others are left out.
    """
    paths, _ = without_copies(_files(run))
    files = [(path, path.stat().st_size) for path in paths]
    each = max(1, -(-sum(size for _, size in files) // number))
    shares: list[list[Part]] = [[]]
    room = each
    for path, size in files:
        start = 0
        while start < size:
            if room == 0:
                shares.append([])
                room = each
            end = min(size, start + room)
            shares[-1].append(Part(path, start, end))
            room -= end - start
            start = end
    return shares


def read(part: Part, take: Callable[[dict[str, Any]], bool]) -> Reading:
    """Call `take` with every whole row of this schema. It returns whether the row holds all required entries."""
    reading = Reading(part)
    try:
        _read(reading, take)
    except OSError as error:  # a bad sector of the disk, or no regular file
        reading.leave_out(reading.lines + 1, f"cannot be read from here on ({error.strerror})")
    return reading


def _read(reading: Reading, take: Callable[[dict[str, Any]], bool]) -> None:
    for number, line in enumerate(_lines(reading.part), start=1):
        reading.lines = number
        if len(line) > _LONGEST_LINE:
            reading.leave_out(number, _TOO_LONG)
            continue
        try:
            row = orjson.loads(line)
        except ValueError:
            row = _as_python_writes(line)
            if row is None:
                reading.leave_out(number, _TORN)
                continue
        schema = row.get("schema") if isinstance(row, dict) else None
        if schema != SCHEMA:
            reading.leave_out(number, _NEWER if isinstance(schema, int) and schema > SCHEMA else _FOREIGN)
        elif not take(row):
            reading.leave_out(number, _INCOMPLETE)


def _lines(part: Part) -> Iterator[bytes]:
    """The lines of the part. Of a line that is too long, only the first `_LONGEST_LINE` + 1 bytes."""
    with part.path.open("rb", buffering=_BLOCK) as file:
        if part.start:
            file.seek(part.start - 1)
            _skip_line(file)  # the rest of a line that begins in another part
        left = part.end - file.tell()
        while left > 0 and (line := file.readline(_LONGEST_LINE + 1)):
            yield line
            left -= len(line)
            if len(line) > _LONGEST_LINE and not line.endswith(b"\n"):
                left -= _skip_line(file)


def _skip_line(file: BinaryIO) -> int:
    """Skip the rest of the line and return its number of bytes. Raises OSError if it exceeds `_MOST_SKIPPED`."""
    skipped = 0
    while skipped < _MOST_SKIPPED:
        block = file.readline(_BLOCK)
        skipped += len(block)
        if not block or block.endswith(b"\n"):
            return skipped
    raise OSError(errno.EFBIG, f"a line of more than {_MOST_SKIPPED // 2**20} MiB")


def _as_python_writes(line: bytes) -> Any:
    """Parse a row with NaN, infinities or lone surrogates, which `json.dumps` writes; None if it is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def copies(run: Path) -> list[str]:
    """One sentence for each file in `rows/` that is a copy of another or not a regular file."""
    others = sorted(path for path in (run / "rows").glob("*.jsonl") if not path.is_file())
    return [*without_copies(_files(run))[1], *(f"{path}: not a regular file, left out" for path in others)]


def _files(run: Path) -> list[Path]:
    """The regular files of rows. Reading a pipe would block, and a device never ends."""
    return [path for path in (run / "rows").glob("*.jsonl") if path.is_file()]


def notices(readings: Iterable[Reading]) -> list[str]:
    """One sentence for each skipped line, in the order of `parts`. Beyond the first few, one sentence for all."""
    lines_before: Counter[Path] = Counter()
    left_out: Counter[str] = Counter()
    told: list[tuple[str, str]] = []
    for reading in readings:
        path = reading.part.path
        told += [(f"{path}:{lines_before[path] + number}", why) for number, why in reading.first]
        lines_before[path] += reading.lines
        left_out += reading.left_out
    sentences = [f"{place}: {why}, left out" for place, why in told[:NAMED]]
    left_out.subtract(why for _, why in told[:NAMED])
    more = ", ".join(f"{number:,} × {why}" for why, number in left_out.items() if number)
    return [*sentences, f"left out beside these: {more}"] if more else sentences
