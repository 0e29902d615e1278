"""A sweep launched on stand-ins for Slurm's commands: what they are asked for, and what becomes of a refusal."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from extras.cluster.slurm.stand_ins import StandIns

pytest.importorskip("submitit", reason="launcher=slurm needs submitit: pip install 'attn-harness[slurm]'")

ROOT = Path(__file__).resolve().parents[4]
SIZES = ["impl=rnn.elman", "seq_len=8,16", "d_model=8", "mode=forward,train"]
QUICK = [
    "precision.trial_s=0.01",
    "precision.min_rounds=2",
    "precision.max_rounds=2",
    "precision.patience_s=0",
    "--no-plots",
]
SAID = [
    *["launcher.partition=fast", "launcher.account=lab", "launcher.time=30", "launcher.gres=gpu:1"],
    *["launcher.cpus_per_task=1", "launcher.array_parallelism=1"],
]
DEADLINE_S = 60


@pytest.fixture
def slurm(tmp_path: Path) -> StandIns:
    return StandIns(tmp_path / "slurm")


def sweep(slurm: StandIns, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "sweep", "launcher=slurm", *SIZES, *QUICK, *arguments, "out=run"]
    environment = {**slurm.environment, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=slurm.home.parent, env=environment, capture_output=True, text=True, timeout=2 * DEADLINE_S
    )


def test_jobs_are_asked_for_as_configured_and_measure_every_case(slurm: StandIns) -> None:
    done = sweep(slurm, *SAID, "launcher.setup=['export FROM_SETUP=yes', 'echo $FROM_SETUP > $STAND_INS/set-up']")
    assert (done.returncode, done.stderr) == (0, "")
    (script,) = slurm.submitted()
    asked = {line.removeprefix("#SBATCH --") for line in script if line.startswith("#SBATCH")}
    assert {"partition=fast", "account=lab", "time=30", "gres=gpu:1", "exclusive", "array=0-1%1"} <= asked
    assert {"cpus-per-task=1", "nodes=1", "ntasks-per-node=1", "no-requeue"} <= asked
    (run,) = [number for number, line in enumerate(script) if line.startswith("srun ")]
    assert script.index("export FROM_SETUP=yes") < run
    assert (slurm.home / "set-up").read_text() == "yes\n"

    run = slurm.home.parent / "run"
    table = pd.read_csv(run / "summary.csv")
    assert sorted(zip(table.seq_len, table["mode"], table.status, strict=True)) == [
        (n, mode, "ok") for n in (8, 16) for mode in ("forward", "train")
    ]
    assert set(table.threads) == {1}
    states = [json.loads((run / "shards" / f"000{index}.json").read_text()) for index in range(2)]
    assert [(state["state"], state["job"]) for state in states] == [("ended", "1_0"), ("ended", "1_1")]
    # The last word of a shard comes before its job's end.
    end = time.monotonic() + DEADLINE_S
    while len(slurm.states()) < 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert slurm.states() == ["1_0|COMPLETED|here", "1_1|COMPLETED|here"]


def test_a_refusal_is_told_in_one_line_and_2(slurm: StandIns) -> None:
    slurm.refuse("sbatch: error: invalid partition specified: fast\nsbatch: error: Batch job submission failed\n")
    done = sweep(slurm, *SAID)
    assert done.returncode == 2
    assert done.stderr.startswith("harness: launcher=slurm: ")
    assert "invalid partition specified: fast" in done.stderr
    assert done.stderr.count("\n") == 1
    assert slurm.submitted() == []
