"""A Slurm of two nodes, n1 and n2, as tests see it: started, disturbed, asked, stopped. See cluster.sh."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

SCRIPT = Path(__file__).with_name("cluster.sh")
ROOT = SCRIPT.parents[4]
DEADLINE_S = 60.0


class Cluster:
    """A context manager: it runs within, and nothing of it, its files included, is left afterwards."""

    def __init__(self) -> None:
        # A name of its own, and short: a socket's path takes 107 characters.
        self.home = Path(tempfile.mkdtemp(prefix="slurm."))
        self.environment = {**os.environ, "SLURM_CONF": f"{self.home}/slurm.conf", "PYTHONPATH": str(ROOT)}

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _bash(SCRIPT, "stop", self.home)
        shutil.rmtree(self.home)

    def start(self) -> None:
        """Start what does not run of it: at first, or after something was killed."""
        _bash(SCRIPT, "start", self.home)

    def kill_node(self, name: str) -> None:
        """As a machine that loses its power: its slurmd, that one's helpers and their jobs, all at once."""
        ours = {"SLURM_CONF": f"{self.home}/slurm.conf", "SLURMD_NODENAME": name}
        jobs = [process for process in psutil.process_iter() if ours.items() <= _environment(process).items()]
        helpers = {above for job in jobs for above in _above(job) if above.name().startswith("slurmstepd")}
        for process in (psutil.Process(self._pid(name)), *helpers, *jobs):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue

    def stop_accounts(self) -> None:
        """Stop the accounting of jobs until the next `start`."""
        os.kill(self._pid("slurmdbd"), signal.SIGTERM)
        until(lambda: _bash("sacct", env=self.environment, check=False).returncode != 0)

    def jobs(self) -> list[tuple[str, str, str]]:
        """All jobs of the accounts, in their order: number, state, node. Those that were requeued count each time."""
        said = _bash(
            *["sacct", "--noheader", "--allocations", "--duplicates", "--parsable2", "--format=JobID,State,NodeList"],
            env=self.environment,
        ).stdout
        found = [tuple(line.split("|")) for line in said.splitlines()]
        return sorted(((number, state, node) for number, state, node in found), key=lambda job: _numbers(job[0]))

    def waiting_jobs(self) -> list[str]:
        """The numbers of those that have not come to their end."""
        return _bash("squeue", "--noheader", "--array", "--format=%i", env=self.environment).stdout.split()

    def cancel(self, job: str) -> None:
        """As its owner would."""
        _bash("scancel", job, env=self.environment)

    def begin_no_jobs(self) -> None:
        """Jobs that are submitted wait in the queue, until `begin_jobs`."""
        _bash("scontrol", "update", "PartitionName=both", "State=DOWN", env=self.environment)

    def begin_jobs(self) -> None:
        _bash("scontrol", "update", "PartitionName=both", "State=UP", env=self.environment)

    def _pid(self, daemon: str) -> int:
        return int((self.home / "run" / f"{daemon}.pid").read_text())


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Return once it is true; raises AssertionError after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "it has not become true"
        time.sleep(0.05)


def _bash(*command: object, check: bool = True, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    # Into files and not into pipes, which daemons that are started would hold open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run([*map(str, command)], stdout=out, stderr=err, timeout=5 * DEADLINE_S, env=env)
        out.seek(0)
        err.seek(0)
        said = subprocess.CompletedProcess(done.args, done.returncode, out.read(), err.read())
    assert said.returncode == 0 or not check, said.stderr
    return said


def _numbers(job: str) -> list[int]:
    return [int(part) for part in job.split("_")]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def _above(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.parents()
    except psutil.NoSuchProcess:
        return []
