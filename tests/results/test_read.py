"""The rows of a run, read by one process or by several."""

import random
import sys
from pathlib import Path

import pytest
from results.reading import new_run
from rows import PRECISION, measured

from harness.background_process import BackgroundProcess
from harness.results import accumulate_rows, row_files
from harness.results.accumulate_rows import accumulate_share, read_run
from harness.results.summarise import Trials, _lines_of, summarise, summarise_run
from harness.sweep_axes import Case

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


def test_several_processes_read_what_one_reads(run: Path) -> None:
    alone, notices = read_run(run, 1)
    together, same_notices = read_run(run, 3)
    assert _lines_of(together, Trials(together), PRECISION) == _lines_of(alone, Trials(alone), PRECISION)
    assert same_notices == notices


@pytest.mark.parametrize("interpreter", ["/bin/false", "/nowhere/python"])
def test_without_helpers_that_help_all_rows_are_read_all_the_same(
    run: Path, interpreter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = summarise_run(run, PRECISION)
    monkeypatch.setattr(sys, "executable", interpreter)
    accumulated, notices = read_run(run, 3)
    assert (_lines_of(accumulated, Trials(accumulated), PRECISION), notices) == alone


def test_a_helper_finds_what_its_parent_found(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[object] = []

    def counted(share: list[row_files.Part]) -> object:
        shares.append(share)
        return accumulate_share(share)

    alone = summarise_run(run, PRECISION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.results.accumulate_rows.accumulate_share", counted)
    accumulated, notices = read_run(run, 2)
    assert (_lines_of(accumulated, Trials(accumulated), PRECISION), notices) == alone
    assert len(shares) == 1  # the helper read the other share


def test_an_interrupted_reader_leaves_no_helper_behind(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def started() -> BackgroundProcess:
        interpreters.append(start())
        return interpreters[-1]

    start, interpreters = accumulate_rows._started, []
    monkeypatch.setattr(accumulate_rows, "_started", started)
    monkeypatch.setattr("harness.results.accumulate_rows.accumulate_share", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_run(run, 3)
    assert len(interpreters) == 2
    assert all(one.process.returncode is not None for one in interpreters)


def test_a_run_without_rows_has_no_lines(tmp_path: Path) -> None:
    assert summarise_run(new_run(tmp_path / "run"), PRECISION) == ([], [])
