"""Text from outside in CSV: no spreadsheet runs it, and reading gives it back."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rows import usual_lines

from harness.core.config import compose
from harness.core.model.file_io import escaped_cell, from_csv, to_csv, unescaped
from harness.core.results.columns import CaseResult, table
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.study.report.build import build

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "'=1",
    "''@x",
    "＝1",
    "-",
    "=1\r=2",
    "=,\"'",
]
HARMLESS = ["rnn.torch", "a=1", "'quoted'", "", "−1.5", "-1.5", "+2e-3", "-.5", "0.5 - 1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_a_spreadsheet_would_run_begins_with_a_quote(text: str) -> None:
    assert escaped_cell(text) == f"'{text}"


@pytest.mark.parametrize("cell", [*HARMLESS, -1.5, -3, None, True])
def test_everything_else_stays_as_it_is(cell: object) -> None:
    assert escaped_cell(cell) is cell
    assert unescaped(cell) is cell


@pytest.mark.parametrize("text", [*FORMULAS, *HARMLESS])
def test_reading_gives_the_text_back(text: str) -> None:
    assert unescaped(escaped_cell(text)) == text
    table = pd.DataFrame({"text": [text, "x"], "number": [-1.5, 2.0]})
    read = from_csv(to_csv(table))
    assert list(read.number) == [-1.5, 2.0]
    if text and not text.lstrip("+-").replace(".", "").replace("e-", "").isdigit():  # else pandas reads a number
        assert list(read.text) == [text, "x"]


def test_numbers_stay_numbers_to_the_last_digit() -> None:
    table = pd.DataFrame({"count": pd.array([-(2**60) - 1, None], dtype="Int64"), "share": [-1.5, math.nan]})
    assert to_csv(table) == f"count,share\n{-(2**60) - 1},-1.5\n,\n"


def hostile_lines() -> list[CaseResult]:
    evil = {"impl": "=HYPERLINK(1)", "family": "@family", "backend": "+backend", "claims": '{"work": "=1"}'}
    return [
        replace(line, **evil, facts_unknown="=why", backend_fallback="\tfallback")
        if line.impl == "attention.naive"
        else line
        for line in usual_lines()
    ]


def cells_that_run(text: str) -> list[str]:
    """The cells of a CSV that a spreadsheet would run."""
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row if _runs(cell)]


def _runs(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return False


def test_no_table_of_a_report_holds_a_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    stored = StoredRun(run, hostile_lines(), [], {}, {})
    monkeypatch.setattr("harness.study.report.build.read_run_directory", lambda _: stored)
    build(run, None)
    tables = {path.name: path.read_text() for path in run.glob("*.csv")}
    assert {"summary.csv", "laws.csv", "claims.csv", "crossovers.csv"} <= tables.keys()
    for name, text in tables.items():
        assert "HYPERLINK" in text, name
        assert not cells_that_run(text), name


def test_a_run_without_rows_has_the_texts_that_its_layers_gave(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(compose([]).record)
    stored = StoredRun(tmp_path, hostile_lines(), [], {}, {})
    (tmp_path / "summary.csv").write_text(to_csv(table(stored.lines)))
    read = read_run_directory(tmp_path)
    texts = [(line.impl, line.family, line.backend, line.claims, line.facts_unknown) for line in read.lines]
    assert texts == [(one.impl, one.family, one.backend, one.claims, one.facts_unknown) for one in stored.lines]


def test_control_characters_become_escapes() -> None:
    text = to_csv(pd.DataFrame({"text": ["a\x1b[31m\x00\x9b\x7f\tb\nc"]}))
    assert text == 'text\n"a\\x1b[31m\\x00\\x9b\\x7f\tb\nc"\n'
