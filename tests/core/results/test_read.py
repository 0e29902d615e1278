"""The rows of a run, read to its lines."""

import random
from pathlib import Path

import pytest
from core.results.reading import new_run
from rows import PRECISION, measured

from harness.core.model.sweep_axes import Case
from harness.core.results import row_files
from harness.core.results.summarise import summarise, summarise_run

ROWS = [
    one
    for n in (64, 128, 256)
    for one in measured(Case("attention.fused", n, 32, 2), 0.002 * n, 4096, trials=20 + n // 64)
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with garbage in the midst of its rows."""
    run = new_run(tmp_path / "run")
    writer = row_files.RowWriter(run)
    for one in random.Random(0).sample(ROWS, len(ROWS)):
        writer.write(one)
    writer.close()
    lines = writer.path.read_bytes().splitlines(keepends=True)
    writer.path.write_bytes(b"".join([*lines[:60], b"garbage\n", *lines[60:]]))
    return run


def test_a_runs_lines_are_those_of_its_rows(run: Path) -> None:
    lines, notices = summarise_run(run, PRECISION)
    assert [line.trials for line in lines] == [21, 22, 24]
    assert [line.time_s for line in lines] == [line.time_s for line in summarise(ROWS, PRECISION)]
    assert [notice.split(":")[1:] for notice in notices] == [["61", " not a whole row, left out"]]


def test_a_run_without_rows_has_no_lines(tmp_path: Path) -> None:
    assert summarise_run(new_run(tmp_path / "run"), PRECISION) == ([], [])
