"""`sweep out=RUN` on an existing run continues it, or says why it cannot."""

import json
import shutil
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.results import run_directory
from harness.core.run.output_directory import OutputDirectory

TWO_ROUNDS = ["precision.min_rounds=2", "precision.max_rounds=2", "precision.patience_s=0"]
TINY = ["impl=rnn.elman", "d_model=8", "threads=1", "precision.trial_s=0.01", *TWO_ROUNDS, "out=run", "--no-plots"]
LAYER = """\
import time
from pathlib import Path
from torch import nn

class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        if x.shape[1] > 16 and Path("slow").exists():
            time.sleep(60)
        return x * 1.0
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a sweep of two cases has come to its end, in `run`."""
    where = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        assert main(["sweep", "seq_len=8,16", *TINY]) == 0
    return where


@pytest.fixture
def here(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a copy of that run."""
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def files(run: str = "run") -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(run).rglob("*") if path.is_file()}


def rows() -> list[dict]:
    return [json.loads(line) for path in sorted(Path("run/rows").iterdir()) for line in path.read_text().splitlines()]


def test_where_nothing_is_missing_nothing_is_measured(here: Path, capsys: pytest.CaptureFixture) -> None:
    before = rows()
    assert main(["sweep", "seq_len=8,16", *TINY]) == 0
    assert rows() == before
    assert "run: continued; 2 of 2 cases have rows" in capsys.readouterr().out


def test_what_is_missing_is_measured_and_nothing_else(here: Path) -> None:
    (file,) = Path("run/rows").iterdir()
    whole = file.read_text().splitlines(keepends=True)
    kept = [line for line in whole if '"seq_len": 16' not in line or '"time"' not in line]
    file.write_text("".join(kept) + '{"schema": 2, "torn')
    before = pd.read_csv("run/summary.csv")
    assert main(["sweep", "seq_len=8,16", *TINY]) == 0
    later = [json.loads(line) for line in max(Path("run/rows").iterdir()).read_text().splitlines()]
    assert {row["case"]["seq_len"] for row in later} == {16}
    assert [row["purpose"] for row in later if row["purpose"] != "verify"] == ["time"] * (len(whole) - len(kept))
    after = pd.read_csv("run/summary.csv")
    assert list(after.trials) == list(before.trials)
    assert (after.status == "ok").all()


def test_so_is_another_machine(here: Path, capsys: pytest.CaptureFixture) -> None:
    machine = json.loads(Path("run/machine.json").read_text())
    machine["cpu"]["model"], machine["torch"]["version"] = "an abacus", "0.1"
    Path("run/machine.json").write_text(json.dumps(machine))
    before = files()
    assert main(["sweep", "seq_len=8,16", *TINY]) == 2
    said = capsys.readouterr().err
    assert "was measured on another machine (processor an abacus before and " in said
    assert "torch 0.1 before and " in said
    assert files() == before


def test_a_configuration_that_was_only_written_differently_is_the_same(here: Path) -> None:
    path = Path("run/config.yaml")
    path.write_text(f"# mine\n{json.dumps(yaml.safe_load(path.read_text()))}\n")
    before = rows()
    assert main(["sweep", "seq_len=8,16", *TINY]) == 0
    assert rows() == before


def test_a_configuration_that_has_gone_is_named_and_fresh_sets_the_rows_aside(
    here: Path, capsys: pytest.CaptureFixture
) -> None:
    Path("run/config.yaml").unlink()
    before = files()
    assert main(["sweep", "seq_len=8,16", *TINY]) == 2
    assert capsys.readouterr().err == (
        "harness: out=run has rows/ and no config.yaml: put that back, or give --fresh to set it aside\n"
    )
    for command in ("status", "report"):
        assert main([command, "run"]) == 2
        assert "run has rows/ and no config.yaml, " in capsys.readouterr().err
    assert files() == before
    assert main(["sweep", "seq_len=8", "--fresh", *TINY]) == 0
    assert "what was in run is now in run.before-1" in capsys.readouterr().err
    assert len(files("run.before-1")) == len(before)


def test_a_dry_run_says_what_is_left(here: Path, capsys: pytest.CaptureFixture) -> None:
    (file,) = Path("run/rows").iterdir()
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in whole if '"seq_len": 16' not in line or '"time"' not in line))
    before = files()
    assert main(["sweep", "--dry-run", "-v", "seq_len=8,16", *TINY]) == 0
    said = capsys.readouterr().out
    cases = [line for line in said.splitlines() if line.startswith("impl=")]
    assert [case.endswith("   # finished") for case in cases] == [True, False]
    assert "2 cases, 1 finished, 1 left to measure. Expected time: " in said
    assert files() == before


def test_a_dry_run_exits_as_a_sweep_would_if_a_finished_case_has_failed(here: Path) -> None:
    (file,) = Path("run/rows").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    ok = [row for row in rows if row["case"]["seq_len"] == 8]
    (verified, *_) = [row for row in rows if row["case"]["seq_len"] == 16 and row["purpose"] == "verify"]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in [*ok, {**verified, "status": "error", "reason": "no"}]))
    assert main(["sweep", "--dry-run", "seq_len=8,16", *TINY]) == 3
    assert main(["sweep", "--dry-run", "retry=error", "seq_len=8,16", *TINY]) == 0


def test_cases_to_which_it_has_grown_are_counted_apart(here: Path, capsys: pytest.CaptureFixture) -> None:
    (file,) = Path("run/rows").iterdir()
    grown = file.read_text().replace('"seq_len": 16', '"seq_len": 32').replace("seq_len=16", "seq_len=32")
    with file.open("a") as rows_of_run:
        rows_of_run.writelines(line for line in grown.splitlines(keepends=True) if '"seq_len": 32' in line)
    assert main(["sweep", "seq_len=8,16", *TINY]) == 0
    said = capsys.readouterr().out
    assert "run: continued; 2 of 2 cases have rows, and 1 more, to which it has grown" in said


def test_fresh_measures_anew_and_sets_the_old_run_aside(here: Path, capsys: pytest.CaptureFixture) -> None:
    before = files()
    assert main(["sweep", "seq_len=8", "--fresh", *TINY]) == 0
    assert "what was in run is now in run.before-1" in capsys.readouterr().err
    assert {
        path.replace("run.before-1", "run", 1): content for path, content in files("run.before-1").items()
    } == before
    assert list(pd.read_csv("run/summary.csv").seq_len) == [8]


def test_the_second_of_two_at_once_is_refused(here: Path, capsys: pytest.CaptureFixture) -> None:
    before = files()
    with run_directory.locked(Path("run")):
        assert main(["sweep", "seq_len=8,16", *TINY]) == 2
    said = capsys.readouterr().err
    assert "is measuring there: wait for it, or end it" in said
    assert said.count("\n") == 1
    assert files() == before


def test_what_timed_out_is_tried_again_if_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("sometimes_slow.py").write_text(LAYER)
    Path("slow").touch()
    asked = ["impl=sometimes_slow:Layer", "seq_len=16,32", "precision.timeout_s=3", *TINY[1:]]
    assert main(["sweep", *asked]) == 0
    assert set(pd.read_csv("run/summary.csv").status) == {"ok", "timeout"}
    Path("slow").unlink()
    assert main(["sweep", *asked]) == 0
    assert set(pd.read_csv("run/summary.csv").status) == {"ok", "timeout"}
    assert main(["sweep", *asked, "retry=oom,timeout"]) == 0
    assert set(pd.read_csv("run/summary.csv").status) == {"ok"}
    (again,) = [row for row in rows() if row["purpose"] == "reopen"]
    assert (again["case"]["seq_len"], again["reason"]) == (32, "after timeout: no result after 3 s")
    assert "retry" not in capsys.readouterr().err


def test_other_code_of_ours_is_refused_too(here: Path, capsys: pytest.CaptureFixture) -> None:
    machine = json.loads(Path("run/machine.json").read_text())
    machine["layers"]["rnn.elman"] = {"impls/": "0123456789abcdef"}
    Path("run/machine.json").write_text(json.dumps(machine))
    assert main(["sweep", "seq_len=8,16", *TINY]) == 2
    assert "changed since: rnn.elman in impls/" in capsys.readouterr().err


def test_a_clock_that_was_set_back_names_no_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form: "then")
    for name in ("then", "then-2", "then-3"):
        out = OutputDirectory.of(compose([])).path
        assert out == Path("results", name)
        out.mkdir(parents=True)
