"""A sweep in shards without a cluster: each a process of its own, one after the other, through submitit."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch
from forked_servers import ADDRESS, Origin

from harness.cli.commands import main

ROOT = Path(__file__).resolve().parents[3]
STARTUP = ROOT / "tests" / "simulated_cuda" / "startup"
TINY = ["impl=rnn.elman", "seq_len=8,16", "d_model=8", "mode=forward,train", "threads=1"]
TWO_ROUNDS = ["precision.min_rounds=2", "precision.max_rounds=2", "precision.patience_s=0"]


def changed(options: Sequence[str], *more: str) -> list[str]:
    """The options with others in the place of those with the same keys."""
    keys = {option.partition("=")[0] for option in more}
    return [*(option for option in options if option.partition("=")[0] not in keys), *more]


QUICK = changed(TINY, "precision.trial_s=0.01", *TWO_ROUNDS, "launcher=processes", "out=run", "--no-plots")

IN_TWO = {(n, mode) for n in (8, 16) for mode in ("forward", "train")}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, origin: Origin, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory. Shards fork their fork servers from `origin`: with Slurm they start them (tests/slurm)."""
    if sys.platform == "linux":
        origin.start()
        monkeypatch.setenv(ADDRESS, origin.address)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (STARTUP, ROOT))))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def timed_rounds() -> list[tuple]:
    rows = [json.loads(line) for path in Path("run/rows").iterdir() for line in path.read_text().splitlines()]
    return [(row["key"], row["round"]) for row in rows if row["purpose"] == "time" and row["status"] == "ok"]


def measured() -> set[tuple[int, str]]:
    frame = pd.read_csv("run/summary.csv")
    assert (frame.status == "ok").all()
    frame = frame[frame.stop_reason != "interrupted"]
    assert frame.host.notna().all()
    return set(zip(frame.seq_len, frame["mode"], strict=True))


def first_shard(sweep: subprocess.Popen) -> int:
    """The process of the first shard, once it has written rows."""
    deadline = time.monotonic() + 180
    while not (states := list(Path("run/shards").glob("0*.json"))) or not list(Path("run/rows").iterdir()):
        assert sweep.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(json.loads(states[0].read_text())["pid"])


def test_each_setting_is_a_shard_and_all_are_one_run(capsys: pytest.CaptureFixture) -> None:
    assert main(["sweep", *QUICK]) == 0
    assert measured() == IN_TWO
    assert len(list(Path("run/rows").iterdir())) == 2
    before = timed_rounds()
    capsys.readouterr()
    assert main(["status", "run"]) == 0
    said = capsys.readouterr().out
    assert "4 cases with rows: 4 finished, 0 begun" in said
    assert said.count("ended") == 2
    assert main(["sweep", *QUICK]) == 0  # nothing is missing, to shards
    alone = [argument for argument in QUICK if not argument.startswith("launcher")]
    assert main(["sweep", *alone]) == 0  # … nor to this process alone
    assert timed_rounds() == before


def test_a_shard_whose_rows_are_lost_is_measured_again_and_so_is_a_case_that_no_shard_has() -> None:
    assert main(["sweep", *QUICK]) == 0
    files = sorted(Path("run/rows").iterdir())
    files[0].unlink()
    plan = Path("run/shards/plan.json")
    shards = json.loads(plan.read_text())
    plan.write_text(json.dumps([shards[0], shards[1][1:]]))
    assert main(["sweep", *QUICK]) == 0
    assert measured() == IN_TWO
    assert files[1].exists()


def test_a_shard_that_is_killed_is_finished_by_the_next_command() -> None:
    slow = changed(
        QUICK, "precision.trial_s=0.1", "precision.min_rounds=5", "precision.max_rounds=5", "launcher.attempts=1"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "sweep", *slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.kill(first_shard(process), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert "harness: shard 0 is not complete: its log is in " in err
    assert process.returncode == 3
    assert measured() < IN_TWO
    assert main(["sweep", *slow]) == 0
    assert measured() == IN_TWO
    rounds = timed_rounds()
    assert len(rounds) == len(set(rounds))


def test_without_waiting_it_submits_and_shards_are_measured_one_after_the_other_all_the_same() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "harness",
            "sweep",
            *changed(QUICK, "precision.min_rounds=9", "precision.max_rounds=9"),
            "wait=false",
        ],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "python -m harness status run shows the progress" in done.stdout
    deadline = time.monotonic() + 180
    while len([path for path in Path("run/shards").glob("0*.json") if "ended" in path.read_text()]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    rows = [[json.loads(line) for line in path.read_text().splitlines()] for path in Path("run/rows").iterdir()]
    spans = sorted((min(row["at"] for row in some), max(row["at"] for row in some)) for some in rows)
    assert spans[0][1] < spans[1][0]
    assert main(["report", "run", "--no-plots"]) == 0
    assert measured() == IN_TWO


def test_an_interrupted_command_takes_its_shards_with_it() -> None:
    slow = changed(QUICK, "precision.trial_s=0.3", "precision.min_rounds=30", "precision.max_rounds=30")
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "sweep", *slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    shard = first_shard(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=180)
    assert process.returncode == 130
    assert err.splitlines()[0] == "harness: its shards have been ended; run the same command to continue run"
    assert "Traceback" not in err
    deadline = time.monotonic() + 180
    while psutil.pid_exists(shard):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_whether_there_is_a_gpu_is_asked_where_it_is_measured(capsys: pytest.CaptureFixture) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one here")
    assert main(["sweep", *changed(QUICK, "device=cuda", "mode=forward", "launcher.attempts=1")]) == 3
    out, err = capsys.readouterr()
    assert "its job" in out
    assert "is not complete: its log is in " in err
    log = "".join(path.read_text() for path in Path("run/jobs").glob("*.err"))
    assert "device=cuda: torch sees no CUDA device here" in log


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["launcher=slurm"], "launcher=slurm: sbatch is not found"),
        (["launcher.cluster=cloud"], "launcher.cluster=cloud; known: here, slurm, processes"),
        (["launcher=slurm", "threads=null"], "launcher=slurm needs threads=N or launcher.cpus_per_task=N"),
        (["launcher.array_parallelism=0"], "launcher.array_parallelism=0: it takes a whole number from 1 on"),
        (["launcher.apart=[moed]"], "launcher.apart=moed; did you mean 'mode'?"),
        (["launcher.silence_s=0"], "launcher.silence_s=0: it takes a number above 0"),
    ],
)
def test_what_cannot_be_launched_is_2(
    overrides: list[str], message: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # of a machine without Slurm
    assert main(["sweep", *changed(QUICK, *overrides)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
