"""`python -m harness export`, and a pytest-benchmark JSON in the place of a run."""

import io
import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from export.exports import SIZES, make_run

import harness
from harness.cli.commands import main
from harness.results.stored_run import read_run_directory


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


def test_an_export_goes_to_the_file_that_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "layers.json"
    assert main(["export", "--format=github-action-benchmark", str(run), "-o", str(out)]) == 0
    said, notices = capsys.readouterr()
    assert said == f"{out}: 8 cases, github-action-benchmark\n"
    assert notices == "harness: 1 case without a result left out\n"
    assert len(json.loads(out.read_text())) == 16


def test_parquet_is_not_written_to_a_terminal(
    run: Path, capsysbinary: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["export", str(run), "--format", "parquet"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"PAR1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["export", str(run), "--format", "parquet"]) == 2
    assert b"name a file with -o FILE" in capsysbinary.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "pytest-benchmrk"], "unknown format 'pytest-benchmrk'; did you mean 'pytest-benchmark'?"),
        ([], "the following arguments are required: --format"),
        (["--format", "csv", "-o", "{run}/config.yaml/x.csv"], "config.yaml"),
        (["--format", "csv", "-o", "{run}"], "Is a directory"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["export", str(run), *(one.format(run=run) for one in arguments)]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (err.startswith("harness: "), err.count("\n"), out) == (True, 1, "")


def test_an_export_read_back_is_the_run_that_was_exported(run: Path, file: Path) -> None:
    assert read_run_directory(file).lines == [line for line in read_run_directory(run).lines if line.status == "ok"]
    assert read_run_directory(file).notices == []


def test_a_notebook_reads_it_as_it_reads_a_run(file: Path) -> None:
    found = harness.load(file)
    assert len(found.table) == 2 * len(SIZES)
    assert {"time", "memory"} == set(found.laws.metric)
    assert found.plot.time()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", ["predict", "recommend"])
def test_predictions_go_by_it(file: Path, command: str, capsys: pytest.CaptureFixture) -> None:
    assert main([command, str(file), "seq_len=1024", "d_model=64", "num_heads=2"]) == 0
    assert "attention.fused" in capsys.readouterr().out


def test_a_report_is_made_of_it(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["report", str(file), "-o", str(tmp_path / "made")]) == 0
    assert f"{tmp_path / 'made'}: report.html" in capsys.readouterr().out
    for name in ("summary.csv", "laws.csv", "claims.csv", "crossovers.csv", "report.md", "plots/time.png"):
        assert (tmp_path / "made" / name).stat().st_size
    page, short = (tmp_path / "made" / "report.html").read_text(), (tmp_path / "made" / "report.md").read_text()
    assert "No sweep measured this" in page
    assert short.startswith("# layers\n")
    assert "Again:" not in short


def test_a_report_of_a_file_needs_a_place_and_takes_none_from_a_run(
    run: Path, file: Path, capsys: pytest.CaptureFixture
) -> None:
    before = sorted(path.name for path in run.iterdir())
    assert main(["report", str(file)]) == 2
    assert "name a directory for the report with -o DIR" in capsys.readouterr().err
    assert main(["report", str(file), "-o", str(run)]) == 2
    assert "is another run: name a directory of its own" in capsys.readouterr().err
    assert main(["report", str(file), "-o", str(file)]) == 2
    assert "File exists" in capsys.readouterr().err
    assert sorted(path.name for path in run.iterdir()) == before


def test_a_file_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "x.json").write_text('{"benchmarks": [')
    for command in (["predict"], ["report", "-o", str(tmp_path / "out")], ["export", "--format", "csv"]):
        assert main([command[0], str(tmp_path / "x.json"), *command[1:]]) == 2
        out, err = capsys.readouterr()
        assert "neither a run nor a pytest-benchmark file" in err
        assert (err.count("\n"), out) == (1, "")
    assert not (tmp_path / "out").exists()
