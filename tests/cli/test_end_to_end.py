"""The main job as a user runs it, in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from harness.cli.commands import main

TESTS = Path(__file__).resolve().parents[1]
TWO_ROUNDS = ["precision.min_rounds=2", "precision.max_rounds=2", "precision.patience_s=0"]
TINY = ["seq_len=32,64", "d_model=16", "num_heads=2", "precision.trial_s=0.01", *TWO_ROUNDS]

# Of the interrupted sweeps' cases both are verified, their facts are taken, and round 1 is over.
HALFWAY = 2 * 2 + 2


def harness(*arguments: str, cwd: Path, **options) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen, status: int) -> tuple[str, str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == status, err
    return out, err


def whole_lines(path: Path) -> list[str]:
    """What is being written while it is read is not a line yet."""
    return path.read_text().split("\n")[:-1]


def rows_of(run: Path) -> list[dict]:
    return [json.loads(line) for path in (run / "rows").glob("*.jsonl") for line in whole_lines(path)]


def test_a_sweep_leaves_a_run_that_report_rebuilds(tmp_path: Path) -> None:
    out, err = finish(harness("sweep", *TINY, cwd=tmp_path), 0)
    assert err == ""
    assert "Cost of one call at n=64 d=16 h=2" in out
    run = tmp_path / "results" / "latest"
    assert run.is_symlink()
    tables = {"summary.csv", "laws.csv", "claims.csv", "crossovers.csv"}
    names = {path.name for path in run.iterdir()}
    assert names == {"config.yaml", "machine.json", "rows", "plots", "report.html", "report.md", *tables}
    plots = ("overview", "time", "memory", "depth", "speedup", "accuracy")
    assert {p.name for p in (run / "plots").iterdir()} == {
        f"{plot}.{kind}" for plot in plots for kind in ("png", "svg")
    }
    summary = pd.read_csv(run / "summary.csv")
    assert len(summary) == 10
    assert (summary.status == "ok").all()
    assert (summary.time_lo_s <= summary.time_s).all()
    assert (summary.peak_bytes > 0).all()
    machine = json.loads((run / "machine.json").read_text())
    assert machine["torch"]["version"] == machine["libraries"]["torch"]
    assert machine["cpu"]["model"]

    made = {name: (run / name).read_text() for name in {*tables, "report.html", "report.md"}}
    for name in made:
        (run / name).unlink()
    assert main(["report", str(run), "--no-plots"]) == 0
    assert {name: (run / name).read_text() for name in made} == made


def test_every_outcome_is_a_row_and_a_bad_one_is_an_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    layers = ("SleepsWhenLong", "Greedy", "KillsItself", "ReturnsGarbage", "RaisesInConstructor", "Identity")
    sizes = ["seq_len=64,128", "d_model=16", "num_heads=2,3", "precision.trial_s=0.01", *TWO_ROUNDS]
    asked = [f"impl={','.join(f'planted:{layer}' for layer in layers)}", *sizes]
    assert main(["sweep", *asked, "out=run", "precision.timeout_s=3", "memory_limit=256MiB", "--no-plots"]) == 3
    summary = pd.read_csv("run/summary.csv")
    possible = summary.query("num_heads == 2")
    status = {(row.impl.removeprefix("planted:"), row.seq_len): row.status for row in possible.itertuples()}
    assert status == {
        ("SleepsWhenLong", 64): "ok",
        ("SleepsWhenLong", 128): "timeout",
        **{("Greedy", n): "oom" for n in (64, 128)},
        **{("KillsItself", n): "killed" for n in (64, 128)},
        **{("ReturnsGarbage", n): "incorrect" for n in (64, 128)},
        **{("RaisesInConstructor", n): "error" for n in (64, 128)},
        **{("Identity", n): "ok" for n in (64, 128)},
    }
    assert possible[possible.status != "ok"].reason.notna().all()
    impossible = summary.query("num_heads == 3")
    assert len(impossible) == len(possible)
    assert set(impossible.status) == {"unsupported"}
    assert set(impossible.reason) == {"d_model=16 is not divisible by num_heads=3"}
    said = " ".join(capsys.readouterr().out.split())
    assert "killed: planted:KillsItself n=64 d=16 h=2 and 1 more case: by SIGKILL" in said


def test_verify_agrees_with_ours_and_what_lies_in_the_current_directory_does_not_stand_in_for_them_or_torch(
    tmp_path: Path,
) -> None:
    (tmp_path / "impls").mkdir()
    (tmp_path / "impls" / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    (tmp_path / "torch.py").write_text("raise RuntimeError('not torch')\n")
    out, err = finish(harness("verify", "--all", cwd=tmp_path), 0)
    assert out.count(" 1 ok; largest error ") == 5
    assert "Verified at n=64. To verify others" in out
    assert "against ElmanReference" in " ".join(out.split())
    assert err == ""


def test_verify_fails_a_planted_wrong_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", "impl=planted:ForgetsTheScale,attention.naive"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("planted:ForgetsTheScale n=64 d=64 h=4 b=2 train threads=2: incorrect\n    output is off by ")
    assert "\nplanted:ForgetsTheScale  1 incorrect\n" in out


def test_a_sweep_goes_on_when_its_reader_has_seen_enough(tmp_path: Path) -> None:
    process = harness("sweep", "impl=rnn.torch", *TINY, "out=run", "--no-plots", cwd=tmp_path)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 0
    process.stderr.close()
    assert len(pd.read_csv(tmp_path / "run" / "summary.csv")) == 2
    assert not (tmp_path / "run" / "plots").exists()


def wait_for_rows(run: Path, number: int) -> None:
    deadline = time.monotonic() + 60
    while not run.exists() or len(rows_of(run)) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def our_processes(run: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if str(run.parent) == process.cwd() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.fixture
def sweeping(tmp_path: Path):
    few = ["impl=rnn.torch,attention.fused", "seq_len=64", "d_model=16", "num_heads=2"]
    endless = ["precision.target=0.001", "precision.min_rounds=1000", "precision.max_rounds=1000"]
    process = harness("sweep", "out=run", "--no-plots", *few, *endless, cwd=tmp_path)
    wait_for_rows(tmp_path / "run", HALFWAY)
    yield process, tmp_path / "run"
    process.kill()
    process.communicate()


def test_a_sweep_killed_halfway_keeps_every_finished_row_and_leaves_no_process(sweeping) -> None:
    process, run = sweeping
    process.send_signal(signal.SIGKILL)
    process.wait()
    rows = rows_of(run)  # raises if one is torn
    assert len(rows) >= HALFWAY
    deadline = time.monotonic() + 10
    while our_processes(run) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert our_processes(run) == []
    assert main(["report", str(run), "--no-plots"]) == 0
    assert len(pd.read_csv(run / "summary.csv")) == 2


def test_an_interrupted_sweep_reports_what_it_has(sweeping) -> None:
    process, run = sweeping
    process.send_signal(signal.SIGINT)  # SIGTERM: tests/core/faults/test_stopped.py
    _, err = finish(process, 130)
    assert "interrupted" in err
    assert "Traceback" not in err
    summary = pd.read_csv(run / "summary.csv")
    assert {"interrupted"} == set(summary.stop_reason)
    assert summary.time_s.notna().any()
    assert our_processes(run) == []
