"""What the published run says, as long as it is one of a machine that was calibrated."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from harness.cli.commands import main
from harness.core.results.columns import CaseResult, lines_of_table
from harness.study.claims.claims_table import verdicts
from harness.study.claims.table1 import table1
from harness.study.laws.fitted_laws import fit_laws
from harness.study.laws.roofline import points_above_roof, roof_points, roofs

RUN = Path(__file__).resolve().parents[3] / "results" / "published" / "cpu-2-cores"
pytestmark = pytest.mark.skipif(not RUN.is_dir(), reason="the published run is not part of an installed copy")


@pytest.fixture(scope="module")
def lines() -> list[CaseResult]:
    return lines_of_table(pd.read_csv(RUN / "summary.csv"))


def test_no_case_is_above_its_roof_by_more_than_its_interval(lines: list[CaseResult]) -> None:
    points = roof_points(lines, roofs(json.loads((RUN / "machine.json").read_text())))
    assert len(points) == len(lines)
    assert max(point.share_lo for point in points) <= 1
    assert points_above_roof(points) == []


def test_every_exact_claim_of_our_layers_is_confirmed(lines: list[CaseResult]) -> None:
    found = [one for one in verdicts(lines, []) if one.quantity != "time"]
    assert {(one.impl, one.quantity): one.reason for one in found if one.verdict != "confirmed"} == {}
    assert len(found) == 4 * len({line.impl for line in lines})


def test_table_1_is_confirmed_in_every_cell_that_a_layer_of_ours_is_of(lines: list[CaseResult]) -> None:
    laws = fit_laws(lines)
    rows = [row for row in table1(lines, laws, verdicts(lines, laws))[0] if row.impl is not None]
    assert {cell.verdict for row in rows for cell in (row.complexity, row.sequential, row.path)} == {"confirmed"}


# The columns that do not depend on how a CPU rounds.
TABLES = {
    "laws.csv": ["impl", "metric", "exact", "determined"],
    "claims.csv": ["impl", "quantity", "verdict"],
    "crossovers.csv": ["slower", "faster", "metric", "seq_len", "seq_len_lo", "seq_len_hi"],
}


@pytest.mark.slow
def test_the_readme_and_the_tables_are_what_report_makes_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = shutil.copytree(RUN, tmp_path / "run")
    assert main(["report", str(run), "--no-plots"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    readme = (RUN.parents[2] / "README.md").read_text(encoding="utf-8")
    screen = readme.partition("<!-- screen -->\n```text\n")[2].partition("\n\nReport:")[0]
    assert screen.splitlines() == printed[: screen.count("\n") + 1]
    for name, columns in TABLES.items():
        published, made = (pd.read_csv(place / name, usecols=columns) for place in (RUN, run))
        pd.testing.assert_frame_equal(published, made, rtol=1e-3)
