"""A run's directory: rows appended as they come, read back whatever became of the writer.

config.yaml   machine.json   rows/*.jsonl   summary.csv   laws.csv   plots/
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.case import AXES
from harness.errors import UsageError

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
        left = memoryview(line.encode("utf-8"))
        while left:  # a disk that is nearly full takes a part, and says so at the next
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; nothing is lost by not getting here."""
        self._file.close()


def read_rows(run: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """`(rows, notices)`: every whole row, and one line for each place that holds something else."""
    rows: list[dict[str, Any]] = []
    notices: list[str] = []
    for path in sorted((run / "rows").glob("*.jsonl")):
        for number, line in _lines(path):
            try:
                row = json.loads(line)
            except ValueError:
                notices.append(f"{path.name}:{number}: not a whole row, left out")
                continue
            if not isinstance(row, dict) or row.get("schema") != SCHEMA:
                notices.append(f"{path.name}:{number}: not a row of schema {SCHEMA}, left out")
                continue
            if not _complete(row):
                notices.append(f"{path.name}:{number}: a row without what every row must hold, left out")
                continue
            rows.append(row)
    return rows, notices


def _complete(row: Mapping[str, Any]) -> bool:
    """Whether the row says of which case, for what purpose and how it ended, and holds samples if it timed."""
    if not {"case", "family", "purpose", "round", "status"} <= row.keys():
        return False
    if not isinstance(row["case"], dict) or not set(AXES) <= row["case"].keys():
        return False
    if row["purpose"] != "time" or row["status"] != "ok":
        return "reason" in row
    samples = row.get("samples_s")
    times = [*samples, row.get("wall_s")] if isinstance(samples, list) and samples else [None]
    return "pulse_s" in row and all(isinstance(t, int | float) and 0 < t < float("inf") for t in times)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from enumerate(file, start=1)


def check_new(out: Path) -> None:
    """Raise UsageError unless a run can be made at `out`; writes nothing."""
    try:
        _check_new(out)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error


def _check_new(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out} is a file: name a directory")
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"out={out} is not empty: name a new directory")
    nearest = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise UsageError(f"out={out}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK) or os.statvfs(nearest).f_flag & os.ST_RDONLY:
        raise UsageError(f"out={out}: {nearest} cannot be written to")


def create(out: Path, config_yaml: str, machine: Mapping[str, Any]) -> None:
    """Make the directory of a new run, with how it was configured and where it ran. Raises UsageError if it cannot."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "rows").mkdir()  # whoever makes it has the run: of two sweeps that start together, one is refused
        (out / "config.yaml").write_text(config_yaml, encoding="utf-8")
        (out / "machine.json").write_text(json.dumps(machine, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except FileExistsError as error:
        raise UsageError(f"out={out}: another sweep has just started there") from error
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error


def link_latest(out: Path) -> None:
    """Point `latest`, beside the run, to it; a file or directory of that name is somebody's own and stays."""
    link = out.parent / "latest"
    if link.is_symlink() or not link.exists():
        fresh = link.with_name(f".latest-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(out.name)
        fresh.replace(link)


def check_run(run: Path) -> None:
    """Raise UsageError unless `run` is a run's directory."""
    if not (run / "rows").is_dir() or not (run / "config.yaml").is_file():
        raise UsageError(f"{run} is not a run: it has no rows/ and config.yaml")
