"""Waiting for shards. Their files decide, whatever the states of their jobs are."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.config import compose
from harness.core.config.schema import Launcher
from harness.extras.cluster.launch import wait_for
from harness.extras.cluster.shards import ENDED, RUNNING, Shard, read_state, write_plan, write_state

LAUNCHER = Launcher(cluster="slurm", attempts=2, silence_s=100.0, queue_s=1000.0)
CONFIG = compose([])


@dataclass
class Job:
    job_id: str
    state: str = "UNKNOWN"

    def cancel(self) -> None: ...


class Cluster:
    """A fake cluster with its own clock. Its jobs do one step of the test at each poll."""

    def __init__(self, run: Path, *does: Callable[["Cluster", Shard, Job], None]) -> None:
        self.run, self._does = run, does
        self.now_s = 0.0
        self.submitted: list[list[int]] = []
        self._steps: list[tuple[Shard, Job]] = []
        self.told: list[str] = []
        write_plan(run, [[], []])
        (run / "rows").mkdir()

    def submit(self, shards: Sequence[Shard]) -> list[Job]:
        self.submitted.append([shard.index for shard in shards])
        jobs = [Job(f"{len(self.submitted)}_{number}") for number, _ in enumerate(shards)]
        self._steps += zip(shards, jobs, strict=True)
        return jobs

    def sleep(self, seconds: float) -> None:
        self.now_s += 10.0
        assert self.now_s < 10_000
        for shard, job in self._steps:
            for do in self._does:
                do(self, shard, job)

    def wait(
        self, shards: Sequence[int] = (0, 1), busy: Sequence[int] = (), launcher: Launcher = LAUNCHER
    ) -> list[int]:
        every = [Shard(self.run, index, replace(CONFIG, launcher=launcher), {}, []) for index in range(2)]
        chosen = [every[index] for index in shards], [every[index] for index in busy]
        lost = wait_for(*chosen, self.told.append, self.submit, lambda: self.now_s, self.sleep)
        return [shard.index for shard in lost]


def ends(cluster: Cluster, shard: Shard, job: Job) -> None:
    write_state(cluster.run, shard.index, ENDED)
    job.state = "FINISHED"


def dies_at_first(cluster: Cluster, shard: Shard, job: Job) -> None:
    """Make the first job of shard 1 fall silent."""
    if shard.index == 1 and job.job_id.startswith("1_"):
        if len(cluster.submitted) == 1 and read_state(cluster.run, 1) is None:
            write_state(cluster.run, 1, RUNNING)
    elif read_state(cluster.run, shard.index) is None:
        write_state(cluster.run, shard.index, ENDED)


def test_all_are_submitted_at_once_and_waited_for(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, ends)
    assert cluster.wait() == []
    assert cluster.submitted == [[0, 1]]


def test_without_a_cluster_one_runs_after_the_other(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, ends)
    assert cluster.wait(launcher=Launcher(cluster="processes", array_parallelism=1)) == []
    assert cluster.submitted == [[0], [1]]


def test_one_that_falls_silent_is_submitted_again_though_its_jobs_state_is_unknown(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, dies_at_first)
    assert cluster.wait() == []
    assert cluster.submitted == [[0, 1], [1]]
    assert cluster.now_s > LAUNCHER.silence_s
    assert any("no report for 1" in sentence for sentence in cluster.told)


def test_one_whose_job_is_known_to_be_over_is_so_at_once(tmp_path: Path) -> None:
    def fails(cluster: Cluster, shard: Shard, job: Job) -> None:
        if job.job_id == "1_1":
            job.state = "CANCELLED by 0"
        else:
            write_state(cluster.run, shard.index, ENDED)

    cluster = Cluster(tmp_path, fails)
    assert cluster.wait() == []
    assert cluster.submitted == [[0, 1], [1]]
    assert cluster.now_s < LAUNCHER.silence_s


def test_attempts_come_to_an_end_and_say_so(tmp_path: Path) -> None:
    def fails(cluster: Cluster, shard: Shard, job: Job) -> None:
        job.state = "NODE_FAIL"

    cluster = Cluster(tmp_path, fails)
    assert cluster.wait() == [0, 1]
    assert cluster.submitted == [[0, 1], [0, 1]]
    assert "given up" in cluster.told[-1]


def test_one_that_waits_in_a_queue_is_not_silent(tmp_path: Path) -> None:
    def ends_late(cluster: Cluster, shard: Shard, job: Job) -> None:
        if cluster.now_s > 5 * LAUNCHER.silence_s:
            write_state(cluster.run, shard.index, ENDED)

    cluster = Cluster(tmp_path, ends_late)
    assert cluster.wait() == []
    assert cluster.submitted == [[0, 1]]


def test_but_not_for_ever(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    assert cluster.wait() == [0, 1]
    assert cluster.now_s > 2 * LAUNCHER.queue_s


def test_one_that_an_earlier_process_has_submitted_is_waited_for_and_not_submitted(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, ends)
    write_state(tmp_path, 1, RUNNING)
    cluster._steps.append((Shard(tmp_path, 1, CONFIG, {}, []), Job("0_1")))
    assert cluster.wait(shards=[0], busy=[1]) == []
    assert cluster.submitted == [[0]]


@pytest.mark.parametrize("spoilt", [[], {"pid": "x"}, {"host": {}}, {"host": "**"}, {"at": None}], ids=str)
def test_a_state_that_no_shard_left_is_unknown(tmp_path: Path, spoilt: Any) -> None:
    (tmp_path / "shards").mkdir()
    write_state(tmp_path, 0, RUNNING)
    path = tmp_path / "shards" / "0000.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **spoilt} if spoilt else spoilt))
    (tmp_path / "rows").mkdir()
    assert read_state(tmp_path, 0) is None


def test_a_row_is_a_word_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    write_state(tmp_path, 0, RUNNING)
    state = read_state(tmp_path, 0)
    assert state is not None
    rows = tmp_path / "rows" / f"0001-{state.host}-{state.pid}.jsonl"
    rows.touch()
    os.utime(rows, (state.at + 500, state.at + 500))
    later = read_state(tmp_path, 0)
    assert later is not None
    assert later.at == state.at + 500
    assert cluster.submitted == []
