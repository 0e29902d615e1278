"""Write rows to files and read them back."""

from pathlib import Path
from typing import Any

from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory
from harness.core.results.row import InvalidRow

BARE: dict[str, Any] = {
    "case": Case("rnn.elman", 8, 4, 1).as_dict(),
    "family": "rnn",
    "purpose": "facts",
    "round": 0,
    "status": "ok",
    "reason": None,
}


def new_run(path: Path) -> Path:
    run_directory.create(path, "precision: {}\n", {"host": "here"})
    return path


def write(run: Path, *rows: dict) -> Path:
    writer = row_files.RowWriter(run)
    for row in rows:
        writer.write({**BARE, **row})
    writer.close()
    return writer.path


def read(run: Path) -> tuple[list[dict], list[str]]:
    """All rows without an entry `bad`, and the notices."""
    rows: list[dict] = []

    def take(row: dict) -> None:
        if "bad" in row:
            raise InvalidRow("a bad row")
        rows.append(row)

    skipped = row_files.SkippedLines()
    for path in row_files.row_paths(run)[0]:
        row_files.read_file(path, take, skipped)
    return rows, skipped.notices()
