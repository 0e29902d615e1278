"""Torn rows: the same command measures the lost trials again, keeps all readable rows, and finishes."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from core.faults.driver import CASES, GRID, lines_of

from harness.cli.commands import main
from harness.core.results import row_files
from harness.core.results.row_files import RowWriter

pytestmark = pytest.mark.usefixtures("forked_servers")
ROUNDS = 2
SWEEP = [
    "sweep",
    *(given for given in GRID if "_rounds=" not in given),
    *(f"precision.{limit}_rounds={ROUNDS}" for limit in ("min", "max")),
]
RUN = Path("run")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def is_time(row: dict[str, Any], rounds: tuple[int, ...]) -> bool:
    return row["purpose"] == "time" and row["round"] in rounds


def tear(which: Callable[[dict[str, Any]], bool]) -> int:
    """Keep only the first 60 characters of each matching row's line. Returns the number of these rows."""
    torn = 0
    for path in RUN.glob("rows/*.jsonl"):
        lines = path.read_text().splitlines()
        hit = [which(json.loads(line)) for line in lines]
        path.write_text("".join(f"{line[:60] if of_it else line}\n" for line, of_it in zip(lines, hit, strict=True)))
        torn += sum(hit)
    return torn


def readable_rounds() -> dict[str, list[int]]:
    """The rounds of each case in its readable rows, by key."""
    rows = [json.loads(line) for line in lines_of(RUN) if line.endswith("}")]
    timed = [(row["key"], row["round"]) for row in rows if row["purpose"] == "time"]
    assert all(times == 1 for times in Counter(timed).values())
    return {key: sorted(number for of, number in timed if of == key) for key, _ in timed}


def test_a_resume_replaces_the_trials_of_torn_rows_and_keeps_the_others(capsys: pytest.CaptureFixture) -> None:
    assert main(SWEEP) == 0
    assert tear(lambda row: is_time(row, (1,))) == CASES
    before = lines_of(RUN)
    capsys.readouterr()
    assert main(SWEEP) == 0
    said = capsys.readouterr()
    assert lines_of(RUN)[: len(before)] == before
    assert list(readable_rounds().values()) == [[2, 3]] * CASES
    assert "there twice" not in said.err
    summary = pd.read_csv(RUN / "summary.csv")
    assert (summary.trials == ROUNDS).all()
    assert (summary.stop_reason != "interrupted").all()
    assert main(["status", "run"]) == 0
    assert f"{CASES} cases with rows: {CASES} finished, 0 begun" in capsys.readouterr().out
    after = lines_of(RUN)
    assert main(SWEEP) == 0
    assert lines_of(RUN) == after


def test_a_sweep_whose_rows_cannot_be_read_back_says_that_cases_are_unfinished(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(row_files, "RowWriter", _Tearing)
        assert main(SWEEP) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"harness: {CASES} cases are unfinished: run the same command with 'out=run' again"
    )
    assert main(SWEEP) == 0
    assert (pd.read_csv(RUN / "summary.csv").trials == ROUNDS).all()


class _Tearing(RowWriter):
    """A writer that loses the end of every row of the second round, as a faulty disk may."""

    def write(self, row: dict) -> None:
        begins = self._file.tell() if self._file else 0
        super().write(row)
        if is_time(row, (2,)):
            self._file.seek(begins + 60)
            self._file.truncate()
            self._file.write(b"\n")
