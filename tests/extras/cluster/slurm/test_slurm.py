"""A sweep on a real Slurm of two nodes: whatever becomes of jobs and of nodes, every case is measured, and once.

With HARNESS_SLURM=1, as root, where Slurm is installed (tests/extras/cluster/slurm/cluster.sh install).
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from extras.cluster.slurm.cluster import Cluster, until

pytestmark = [
    pytest.mark.skipif(os.environ.get("HARNESS_SLURM") != "1", reason="it starts daemons: set HARNESS_SLURM=1"),
    pytest.mark.skipif(shutil.which("sbatch") is None, reason="there is no sbatch: cluster.sh install"),
]

SIZES = ["impl=rnn.elman", "seq_len=8,16", "d_model=8", "threads=1", "mode=forward,train"]
TINY = [*SIZES, "precision.trial_s=0.01", "precision.patience_s=0.1"]
# Enough rounds for the job to be disturbed in the middle of its work.
LONG = [*TINY, "precision.min_rounds=30", "precision.max_rounds=30"]
CASES = {(n, mode) for n in (8, 16) for mode in ("forward", "train")}
# What a run is the same in, whatever machine or process measured it, and when.
EXACT = ["impl", "seq_len", "d_model", "num_heads", "mode", "threads", "status", "flops", "ops", "depth"]
EXACT_BYTES = ["peak_bytes", "weights_bytes", "inputs_bytes", "saved_bytes", "transient_bytes", "min_bytes"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


class Sweep:
    """`python -m harness sweep launcher=slurm out=run` in a directory of its own."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._cluster, self.home = cluster, home
        self.run = home / "run"

    def begin(self, *arguments: str, launcher: str = "slurm", out: str = "run") -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "harness", "sweep", f"launcher={launcher}", f"out={out}", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.home, env=self._cluster.environment, stdout=pipe, stderr=pipe, text=True
        )

    def to_its_end(self, *arguments: str, **options: str) -> str:
        """What it says; it must end well and have nothing to complain of."""
        return said_of(self.begin(*arguments, **options))

    def rows(self) -> list[dict]:
        return [json.loads(line) for lines in self.lines().values() for line in lines]

    def lines(self) -> dict[str, list[str]]:
        """Of each file of rows the whole lines; what is being written is not a line yet."""
        return {path.name: path.read_text().split("\n")[:-1] for path in (self.run / "rows").glob("*.jsonl")}

    def has_rows_of_both(self) -> bool:
        """Whether each of two shards has begun with its rounds."""
        return [len(lines) > 8 for lines in self.lines().values()] == [True, True]

    def table(self, out: str = "run") -> pd.DataFrame:
        return pd.read_csv(self.home / out / "summary.csv")

    def is_whole(self) -> None:
        """Every case has the status ok, and no trial was measured twice."""
        table = self.table()
        assert Counter(zip(table.seq_len, table["mode"], strict=True)) == Counter(CASES)
        assert set(table.status) == {"ok"}
        rows = self.rows()
        times = Counter((row["key"], row["round"]) for row in rows if row["purpose"] == "time")
        facts = Counter(row["key"] for row in rows if row["purpose"] == "facts")
        assert set(times.values()) == {1}
        assert sorted(facts.values()) == [1] * len(CASES)


def said_of(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return out


@pytest.fixture
def sweep(cluster: Cluster, tmp_path: Path) -> Sweep:
    return Sweep(cluster, tmp_path)


def test_two_nodes_finish_a_sweeps_shards_and_the_run_is_as_one_of_this_machine(cluster: Cluster, sweep: Sweep) -> None:
    before = len(cluster.jobs())
    said = sweep.to_its_end(*TINY)
    assert "run: 2 shards; 0 have ended, 0 are under way" in said
    assert "Cost of one call at n=16 d=8" in said
    sweep.is_whole()
    assert len(sweep.lines()) == 2
    until(lambda: {state for _, state, _ in cluster.jobs()[before:]} == {"COMPLETED"})
    assert [node for _, _, node in cluster.jobs()[before:]] == ["n1", "n2"]

    sweep.to_its_end(*TINY, launcher="here", out="local")
    local = sweep.table("local")
    shared = sweep.table()
    assert list(shared.columns) == list(local.columns)
    pd.testing.assert_frame_equal(shared[EXACT + EXACT_BYTES], local[EXACT + EXACT_BYTES])


def test_a_node_that_dies_costs_no_case_and_no_row(cluster: Cluster, sweep: Sweep) -> None:
    before = len(cluster.jobs())
    process = sweep.begin(*LONG)
    try:
        until(lambda: sweep.has_rows_of_both(), 180)
        cluster.kill_node("n1")
        kept = sweep.lines()
        said = said_of(process)
    finally:
        process.kill()
        process.wait()
        cluster.start()
    assert "is over (NODE_FAIL); its unfinished cases are submitted again" in said
    sweep.is_whole()
    assert all(sweep.lines()[name][: len(lines)] == lines for name, lines in kept.items())
    assert len(sweep.lines()) == 3
    until(lambda: not cluster.waiting_jobs())
    # Slurm has not begun the lost one again by itself, beside ours.
    jobs = cluster.jobs()[before:]
    assert Counter((state, node) for _, state, node in jobs) == Counter(
        [("NODE_FAIL", "n1"), ("COMPLETED", "n2"), ("COMPLETED", "n2")]
    )


def test_without_waiting_the_jobs_go_on_and_the_same_command_finds_them(cluster: Cluster, sweep: Sweep) -> None:
    cluster.begin_no_jobs()  # however slow the commands are, no job ends between them
    try:
        said = sweep.to_its_end(*TINY, "wait=false")
        submitted = cluster.waiting_jobs()
        assert len(submitted) == 2
        assert all(f"job {number}" in said for number in submitted)
        assert "0 have ended, 2 are under way" in sweep.to_its_end(*TINY, "wait=false")
    finally:
        cluster.begin_jobs()
    until(lambda: not cluster.waiting_jobs(), 180)
    assert "2 have ended, 0 are under way" in sweep.to_its_end(*TINY)
    sweep.is_whole()
    rows = sweep.rows()
    assert "2 have ended, 0 are under way" in sweep.to_its_end(*TINY)
    assert sweep.rows() == rows
    until(lambda: {number for number, _, _ in cluster.jobs()[-2:]} == {*submitted})  # none was submitted after them


def cancelled_in_its_midst(cluster: Cluster, sweep: Sweep) -> tuple[str, str]:
    """The number of a job that was cancelled while both were at work, and what the sweep said until its end."""
    process = sweep.begin(*LONG)
    try:
        until(lambda: sweep.has_rows_of_both(), 180)
        cancelled, _ = cluster.waiting_jobs()
        cluster.cancel(cancelled)
        return cancelled, said_of(process)
    finally:
        process.kill()
        process.wait()


def test_a_job_that_is_cancelled_ends_at_once_and_another_takes_what_is_left(cluster: Cluster, sweep: Sweep) -> None:
    cancelled, said = cancelled_in_its_midst(cluster, sweep)
    assert f"its job {cancelled} is over (CANCELLED" in said
    sweep.is_whole()


def test_without_accounts_the_files_tell_and_slurm_itself_what_failed(cluster: Cluster, sweep: Sweep) -> None:
    cluster.stop_accounts()
    try:
        cancelled, said = cancelled_in_its_midst(cluster, sweep)
    finally:
        cluster.start()
    assert f"its job {cancelled} is over (" in said
    assert "shard 0 has ended" in said
    assert "shard 1 has ended" in said
    sweep.is_whole()
