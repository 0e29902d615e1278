"""Snapshots as text files, and the filters that make a screen the same on every machine."""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from harness.study.report.document import Cell, Table


class TextFile(SingleFileSnapshotExtension):
    """One text file for each assertion, so that a diff shows the screen."""

    _write_mode = WriteMode.TEXT
    file_extension = _file_extension = "txt"


def without_trailing_spaces(text: str) -> str:
    """The text without the spaces that fill a terminal's lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def without_paths(text: str, *directories: Path) -> str:
    """The text with each directory as DIRECTORY."""
    for directory in directories:
        text = text.replace(str(directory), "DIRECTORY")
    return text


def without_writers(text: str) -> str:
    """The text with ROWS.jsonl for a file of rows, whose name has the host and the process that wrote it."""
    return re.sub(r"\b\d{4}-[\w.-]+-\d+\.jsonl", "ROWS.jsonl", text)


def without_elapsed_time(text: str) -> str:
    """The lines of a display of progress without the seconds that they begin with."""
    return re.sub(r"(?m)^ *\d+ s  ", "", text)


def without_versions(text: str) -> str:
    """The text with x.y.z for every version and TIME for every date with a time."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T_ ]\d\d[-:]\d\d[-:]\d\d(\.\d+)?(\+\d\d:\d\d)?", "TIME", text)
    return re.sub(r"\b\d+\.\d+\.\d+\S*", "x.y.z", text)


def options_of_any_python(text: str) -> str:
    """Argparse's list of options as every Python writes it: `-o, --out FILE` as Python 3.13, and no columns."""
    if "\noptions:\n" not in text:
        return text
    above, heading, below = text.partition("\noptions:\n")
    options, blank, epilog = below.partition("\n\n")
    options = re.sub(r"(-\w) ([A-Z]+), (--[\w-]+ \2)", r"\1, \3", above + heading + options)
    return re.sub(r"(?m)^  (\S.*?) {2,}(?=\S)", r"  \1  ", options) + blank + epilog


def terminal(width: int = 100) -> Console:
    """A terminal of that width, without colours, whose text `printed` returns."""
    return Console(file=io.StringIO(), width=width, color_system=None)


def printed(console: Console) -> str:
    """The text on a `terminal`."""
    assert isinstance(console.file, io.StringIO)
    return without_trailing_spaces(console.file.getvalue())


def table_text(table: Table) -> str:
    """A table of the page: each heading row, its rows below it, then the notes."""
    groups = table.groups or {(): table.rows}
    lines = [" | ".join(table.columns)]
    for heading, rows in groups.items():
        lines += [" | ".join(f"{cell} {cell.aside}".rstrip() for cell in heading)] if heading else []
        lines += [f"{'  ' if heading else ''}{' | '.join(map(_cell_text, row))}" for row in rows]
    return "\n".join([*lines, *(f"[{number}] {note}" for number, note in enumerate(table.notes, 1))])


def _cell_text(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return cell
    note = f"[{cell.note}]" if cell.note else ""
    return " ".join(filter(None, [cell.text, cell.verdict, note, cell.aside, cell.why, *cell.details]))


def titled(screens: Mapping[str, Any]) -> str:
    """The screens one below the other, each under its title."""
    return "\n".join(f"=== {title} ===\n{str(screen).rstrip()}\n" for title, screen in screens.items())
