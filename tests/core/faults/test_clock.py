"""The clock jumps during a sweep and between sweeps. Durations, order and names must not depend on it."""

import json
import random
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from core.faults.driver import CASES, GRID, ROUNDS, ROWS, lines_of

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.results import row_files, run_directory
from harness.core.run.output_directory import OutputDirectory

pytestmark = pytest.mark.usefixtures("forked_servers")
_YEAR_S = 365 * 86400.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the clock jump between any two readings, by up to two years in either direction."""
    today, draw = time.time(), random.Random(0)
    monkeypatch.setattr(time, "time", lambda: today + draw.uniform(-_YEAR_S, _YEAR_S))
    monkeypatch.chdir(tmp_path)


def test_set_during_a_sweep_and_again_before_the_sweep_continues_it_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(row_files, "RowWriter", _Interrupted)
        assert main(["sweep", *GRID]) == 130
    before = lines_of(Path("run"))
    assert len(before) == _Interrupted.ROWS
    assert main(["sweep", *GRID]) == 0
    assert lines_of(Path("run"))[: len(before)] == before
    rows = pd.DataFrame(map(json.loads, lines_of(Path("run"))))
    assert not rows["at"].is_monotonic_decreasing
    assert not rows["at"].is_monotonic_increasing
    assert (rows.wall_s > 0).all()
    timed = Counter(rows[rows.purpose == "time"].key)
    assert set(timed.values()) == {ROUNDS}
    summary = pd.read_csv("run/summary.csv")
    assert len(summary) == CASES
    assert (summary.status == "ok").all()
    assert (summary.trials == ROUNDS).all()


class _Interrupted(row_files.RowWriter):
    """A writer that raises KeyboardInterrupt, as Ctrl-C does, after most of the rows."""

    ROWS = ROWS - CASES

    def write(self, row) -> None:
        super().write(row)
        if len(lines_of(Path("run"))) == self.ROWS:
            raise KeyboardInterrupt


def test_a_new_run_never_gets_the_name_of_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda form: "2026-01-31_12-00-00")
    found = [OutputDirectory.of(compose([])).path for _ in range(2)]
    assert found[0] == found[1]
    for suffix in ("-2", "-3"):
        found[-1].mkdir(parents=True)
        found.append(OutputDirectory.of(compose([])).path)
        assert found[-1].name == f"2026-01-31_12-00-00{suffix}"


def test_sweeps_of_the_same_second_make_directories_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form: "now")
    chosen = [OutputDirectory.of(compose([])).path for _ in range(4)]
    made = [run_directory.make_unused(path) for path in chosen]
    assert [path.name for path in made] == ["now", "now-2", "now-3", "now-4"]
    assert all(path.is_dir() for path in made)
