"""`python -m harness export`, and a pytest-benchmark JSON in the place of a run."""

import io
import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from attention_run import make_run

from harness.cli.commands import main
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.extras.export.formats import FORMATS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def file(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("file") / "layers.json"
    assert main(["export", str(run), "--format", "pytest-benchmark", "-o", str(out)]) == 0
    return out


def test_an_export_goes_to_standard_output(run: Path, capsysbinary: pytest.CaptureFixture) -> None:
    assert main(["export", str(run), "--format", "csv"]) == 0
    out, err = capsysbinary.readouterr()
    assert len(pd.read_csv(io.BytesIO(out))) == 9
    assert err == b""


def test_a_table_is_the_summary_of_the_report(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    table, parquet = tmp_path / "table.csv", tmp_path / "table.parquet"
    assert main(["report", str(run), "--no-plots", "-o", str(tmp_path / "report")]) == 0
    assert main(["export", str(run), "--format", "csv", "-o", str(table)]) == 0
    assert table.read_text() == (tmp_path / "report" / "summary.csv").read_text()
    assert main(["export", str(run), "--format", "parquet", "-o", str(parquet)]) == 0
    filled = pd.read_csv(table).notna().any()
    assert set(pd.read_parquet(parquet).dropna(axis=1, how="all").columns) == set(filled[filled].index)


def test_an_export_goes_to_the_file_that_is_named(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "layers.json"
    assert main(["export", "--format=github-action-benchmark", str(run), "-o", str(out)]) == 0
    assert len(json.loads(out.read_text())) == 16


def test_a_script_is_of_the_case_that_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "issue.py"
    case = "attention.fused n=64"
    assert main(["export", str(run), "--format", "script", "--case", case, "-o", str(out)]) == 0
    assert "import FusedAttention" in out.read_text()
    assert main(["export", str(run), "--format", "csv", "--case", case]) == 2
    assert "--case chooses the cases of a script" in capsys.readouterr().err


def test_parquet_is_not_written_to_a_terminal(
    run: Path, capsysbinary: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["export", str(run), "--format", "parquet"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"PAR1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["export", str(run), "--format", "parquet"]) == 2
    assert b"name a file with -o FILE.parquet" in capsysbinary.readouterr().err


def names_of(stored: StoredRun) -> tuple[bytes, int, list[str]]:
    """The layers of a run, as another extra might write them."""
    names = dict.fromkeys(line.impl for line in stored.lines)
    return "\n".join(names).encode(), len(names), ["sizes are left out"]


def test_a_format_of_another_extra_is_written_too(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(FORMATS, "names", (".txt", f"{__name__}:names_of"))
    out = tmp_path / "names.txt"
    assert main(["export", str(run), "--format", "names", "-o", str(out)]) == 0
    assert out.read_text().split() == ["attention.fused", "attention.naive", "attention.packed"]
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{out}: 3 cases, names\n", "harness: sizes are left out\n")
    assert main(["export", str(run), "--format", "name"]) == 2
    assert "did you mean 'names'?" in capsys.readouterr().err


def test_an_export_read_back_is_the_run_that_was_exported(run: Path, file: Path) -> None:
    assert read_run_directory(file).lines == [line for line in read_run_directory(run).lines if line.status == "ok"]
    assert read_run_directory(file).notices == []


@pytest.mark.parametrize("command", ["predict", "recommend"])
def test_predictions_go_by_it(file: Path, command: str, capsys: pytest.CaptureFixture) -> None:
    assert main([command, str(file), "seq_len=1024", "d_model=64", "num_heads=2"]) == 0
    assert "attention.fused" in capsys.readouterr().out


def test_a_report_is_made_of_it(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["report", str(file), "-o", str(tmp_path / "made")]) == 0
    assert f"Report: {tmp_path / 'made' / 'report.html'}" in capsys.readouterr().out
    for name in ("summary.csv", "laws.csv", "claims.csv", "crossovers.csv", "report.md", "plots/time.png"):
        assert (tmp_path / "made" / name).stat().st_size
    assert "No sweep measured this" in (tmp_path / "made" / "report.html").read_text()
