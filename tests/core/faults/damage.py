"""Faults that damage a run's files between two sweeps. Each function returns whether it damaged anything."""

import json
import math
import os
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from core.faults.place import Place

FIRST = 60
_GARBAGE, _NULS, _HUGE = 512, 4096, 2**21


def _files(place: Place) -> list[Path]:
    return sorted(path for path, rows in place.rows().items() if rows)


def _change_lines(place: Place, change: Callable[[list[bytes], random.Random], Iterable[bytes]]) -> bool:
    """Change the lines of one file of rows."""
    files = _files(place)
    if not files:
        return False
    path = place.draw.choice(files)
    changed = b"".join(change(path.read_bytes().splitlines(keepends=True), place.draw))
    if len(changed) > shutil.disk_usage(path).free:  # the fault has no room on a small disk
        return False
    path.write_bytes(changed)
    place.damaged = True
    return True


def tear_lines(place: Place) -> bool:
    """Cut half of the lines at random places."""

    def change(lines: list[bytes], draw: random.Random) -> Iterable[bytes]:
        for line in lines:
            yield line if draw.random() < 0.5 else line[: draw.randrange(len(line))] + b"\n"

    return _change_lines(place, change)


def tear_rounds(place: Place) -> bool:
    """Keep only the first characters of each line of round 1, in all files."""
    torn = False
    for path in _files(place):
        lines = path.read_bytes().splitlines(keepends=True)
        cut = [line[:FIRST] + b"\n" if b'"round": 1,' in line else line for line in lines]
        path.write_bytes(b"".join(cut))
        torn = torn or cut != lines
    place.damaged |= torn
    return torn


def tear_end(place: Place) -> bool:
    """Cut a file off at a random byte, as a power failure does."""

    def change(lines: list[bytes], draw: random.Random) -> Iterable[bytes]:
        whole = b"".join(lines)
        return [whole[: draw.randrange(len(whole))]]

    return _change_lines(place, change)


def _insert(place: Place, lines: Callable[[random.Random], list[bytes]]) -> bool:
    """Insert lines at random places in a file."""

    def change(before: list[bytes], draw: random.Random) -> Iterable[bytes]:
        for line in lines(draw):
            before.insert(draw.randrange(len(before) + 1), line)
        return before

    return _change_lines(place, change)


def insert_garbage(place: Place) -> bool:
    return _insert(place, lambda draw: [draw.randbytes(draw.randrange(_GARBAGE)) + b"\n" for _ in range(5)])


def insert_nuls(place: Place) -> bool:
    return _insert(place, lambda draw: [bytes(_NULS), bytes(7) + b"\n"])


def insert_huge_lines(place: Place) -> bool:
    return _insert(place, lambda draw: [b"x" * _HUGE + b"\n", b"[" * 60_000 + b"\n"])


def insert_foreign_rows(place: Place) -> bool:
    """Insert JSON that is no row, and rows of an older or a newer schema."""
    values: list[Any] = [None, [1, 2], "row", {}, {"schema": 1}, {"schema": 999}, {"schema": "2"}, {"schema": 2}]
    return _insert(place, lambda draw: [json.dumps(value).encode() + b"\n" for value in values])


def _add_changed(place: Place, *changes: Callable[[dict[str, Any]], None]) -> bool:
    """Append changed copies of a file's rows to the file."""

    def change(lines: list[bytes], draw: random.Random) -> Iterable[bytes]:
        yield from lines
        for line in lines:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and isinstance(row.get("case"), dict):
                draw.choice(changes)(row)
                yield json.dumps(row).encode() + b"\n"

    return _change_lines(place, change)


def add_other_cases(place: Place) -> bool:
    """Add rows of cases outside the grid and of impossible cases."""

    def longer(row: dict[str, Any]) -> None:
        row["case"]["seq_len"] = 16

    def impossible(row: dict[str, Any]) -> None:
        row["case"]["seq_len"] = -1

    def unknown(row: dict[str, Any]) -> None:
        row["case"]["color"] = row["case"].pop("dtype")

    return _add_changed(place, longer, impossible, unknown)


def add_what_is_not_finite(place: Place) -> bool:
    """Add rows with NaN and infinities in place of their numbers."""

    def spoil(value: float) -> Callable[[dict[str, Any]], None]:
        def change(row: dict[str, Any]) -> None:
            for name, cell in row.items():
                if isinstance(cell, float):
                    row[name] = value
                elif name == "samples_s":
                    row[name] = [value] * len(cell)

        return change

    return _add_changed(place, *map(spoil, (math.nan, math.inf, -math.inf)))


def repeat_rows(place: Place) -> bool:
    return _change_lines(place, lambda lines, draw: [*lines, *draw.choices(lines, k=len(lines))])


def copy_files(place: Place) -> bool:
    """Copy each file to another number, and to a name that no writer uses."""
    files = _files(place)
    for path in files:
        shutil.copyfile(path, path.with_name(f"0{path.name}"))
        shutil.copyfile(path, path.with_name(f"copy of {path.name}"))
    place.damaged |= bool(files)
    return bool(files)


def add_strange_files(place: Place) -> bool:
    """Put an empty file, a directory, a pipe and a dangling link among the rows."""
    rows = place.run / "rows"
    if not rows.is_dir() or (rows / "0090-pipe.jsonl").exists():
        return False
    (rows / "0088-empty.jsonl").touch()
    (rows / "0089-directory.jsonl").mkdir()
    os.mkfifo(rows / "0090-pipe.jsonl")
    (rows / "0091-link.jsonl").symlink_to("nowhere")
    place.damaged = True
    return True


def remove_results(place: Place) -> bool:
    """Remove all files that a report has written."""
    paths = [place.run / name for name in ("summary.csv", "laws.csv", "claims.csv", "report.html", "report.md")]
    found = [path for path in paths if path.is_file()]
    for path in found:
        path.unlink()
    shutil.rmtree(place.run / "plots", ignore_errors=True)
    return bool(found)


def replaced(name: str, put: Callable[[Path, Place], None]) -> Callable[[Place], bool]:
    """Replace the named file by whatever `put` makes, until it is undone."""

    def deal(place: Place) -> bool:
        path = place.run / name
        if not path.is_file():
            return False
        kept = path.read_bytes()
        path.unlink()

        def put_back() -> None:
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.write_bytes(kept)

        place.undo.append(put_back)
        put(path, place)
        return True

    return deal


def truncated(name: str, after: bytes = b"", before: bytes = b"") -> Callable[[Place], bool]:
    """Cut the named file at a random place between the two texts, or where one is empty, in its first half."""

    def deal(place: Place) -> bool:
        path = place.run / name
        kept = path.read_bytes() if path.is_file() else b""
        first = kept.find(after) + 1
        last = kept.find(before) if before else len(kept) if after else len(kept) // 2

        def put(path: Path, place: Place) -> None:
            path.write_bytes(kept[: place.draw.randrange(first, last)])

        return 0 < first < last and replaced(name, put)(place)

    return deal


def edited(name: str, old: str, new: str) -> Callable[[Place], bool]:
    """Replace a text in the named file."""

    def deal(place: Place) -> bool:
        path = place.run / name
        text = path.read_text() if path.is_file() else ""
        return old in text and replaced(name, lambda path, _: path.write_text(text.replace(old, new)))(place)

    return deal


def locked(put: Callable[[Path, Place], None]) -> Callable[[Place], bool]:
    """Replace the lock. The file exists only while a sweep runs, or after one was killed."""

    def deal(place: Place) -> bool:
        path = place.run / "lock.json"
        if not place.run.is_dir():
            return False
        put(path, place)
        place.undo.append(lambda: path.unlink(missing_ok=True))
        return True

    return deal


def hide_rows(place: Place) -> bool:
    """Replace `rows/` by a file."""
    rows, hidden = place.run / "rows", place.run / "rows.hidden"
    if not rows.is_dir():
        return False
    rows.rename(hidden)
    rows.write_text("rows")

    def put_back() -> None:
        rows.unlink()
        hidden.rename(rows)

    place.undo.append(put_back)
    return True
