"""Jobs for shards, through submitit: of Slurm's, an array; or processes of this machine."""

import contextlib
import io
import pickle
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil

from harness.checkout import search_path
from harness.config.launcher import PROCESSES, SLURM
from harness.config.schema import Launcher
from harness.errors import UsageError
from harness.sweep.launched import begin
from harness.sweep.launched.files import LOGS, say_submitted, state_of, submitted
from harness.sweep.launched.task import Shard, measure, measure_each

# What Slurm tells of a job that will never end well.
_DEAD = (
    "FAILED",
    "NODE_FAIL",
    "TIMEOUT",
    "CANCELLED",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "REVOKED",
)
# When a process has begun is told in seconds since the machine was started, which is told in whole ones.
_COARSE_S = 2.0
# Of a process of this machine that has gone.
_GONE = ("FINISHED",)


class Job(Protocol):
    """One that was submitted."""

    @property
    def job_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    def cancel(self, check: bool) -> None: ...


def submit(shards: Sequence[Shard], launcher: Launcher, folder: Path) -> list[Job]:
    """Submit the shards, a job each, logs and pickles into `folder`, which their nodes must see too.

    Raises UsageError where there is no submitit or no Slurm, or Slurm refuses.
    """
    if launcher.cluster != SLURM:  # they begin at once, and say so themselves
        return _start(measure, shards, launcher, folder)
    submitit = _submitit(launcher)
    try:
        executor: Any = submitit.SlurmExecutor(folder=folder)
        executor.update_parameters(**_parameters(launcher))
        with contextlib.redirect_stderr(io.StringIO()):  # what sbatch complains of is in the error too
            jobs = list(_map(executor, measure, shards))
    except (RuntimeError, submitit.core.utils.FailedSubmissionError, submitit.core.utils.FailedJobError) as error:
        why = " ".join(str(error).split())[:300] or "it was refused without a word"
        raise UsageError(f"launcher={launcher.cluster}: {why}") from error
    from harness.sweep.launched.slurm import SlurmJob

    for shard, job in zip(shards, jobs, strict=True):
        say_submitted(shard.run, shard.index, job.job_id)
    return [SlurmJob(job.job_id, folder) for job in jobs]


def submit_all(shards: Sequence[Shard], launcher: Launcher, folder: Path) -> list[Job]:
    """The same where nobody waits; processes of this machine measure no more shards at a time than they may."""
    if launcher.cluster == SLURM:
        return submit(shards, launcher, folder)
    rows = [shards[i :: launcher.array_parallelism] for i in range(min(launcher.array_parallelism, len(shards)))]
    jobs = {}
    for row, job in zip(rows, _start(measure_each, rows, launcher, folder), strict=True):
        for shard in row:
            say_submitted(shard.run, shard.index, job.job_id)
            jobs[shard.index] = job
    return [jobs[shard.index] for shard in shards]


def _start(task: Callable[[Any], None], arguments: Sequence[Any], launcher: Launcher, folder: Path) -> list[Job]:
    """A process of this machine for each of the task's arguments. Raises UsageError where there is no submitit."""
    executor = _submitit(launcher).LocalExecutor(folder=folder)
    executor.update_parameters(timeout_min=launcher.time)
    # Ctrl-C reaches all that a terminal has started: these end when they are told to, and not with a traceback.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        jobs = _map(executor, task, arguments)
    finally:
        signal.signal(signal.SIGINT, before)
    return [_Process(int(job.job_id), time.time(), job) for job in jobs]


def _map(executor: Any, task: Callable[[Any], None], arguments: Sequence[Any]) -> Any:
    """A job for each argument, in which the harness is the one of this process."""
    import cloudpickle  # comes with submitit

    cloudpickle.register_pickle_by_value(begin)
    path = search_path(sys.path)
    return executor.map_array(begin.begin, [path] * len(arguments), [pickle.dumps((task, one)) for one in arguments])


def _submitit(launcher: Launcher) -> Any:
    try:
        import submitit
    except ImportError as error:
        told = f"launcher={launcher.cluster} needs submitit: pip install 'attn-harness[slurm]'"
        raise UsageError(told) from error
    return submitit


def job_of(shard: Shard, launcher: Launcher) -> Job | None:
    """The job that has the shard, or had it last; None of one that nobody can be asked about."""
    state, given = state_of(shard.run, shard.index), submitted(shard.run, shard.index)
    number = state.job if state is not None else given[0] if given is not None else ""
    if launcher.cluster == SLURM and number:
        _submitit(launcher)
        from harness.sweep.launched.slurm import SlurmJob

        return SlurmJob(number, shard.run / LOGS)
    if state is not None and not state.job and state.host == platform.node():
        return _Process(state.pid, state.at)
    if launcher.cluster == PROCESSES and state is None and given is not None:
        return _Process(int(given[0]), given[1])
    return None


class _Process:
    """A process of this machine, which was there at a time of the system's clock.

    `child`: submitit's own job, where this process has started it, and must ask how it has ended.
    """

    def __init__(self, pid: int, at: float, child: Any = None) -> None:
        self.job_id, self._pid, self._at, self._child = str(pid), pid, at, child

    @property
    def state(self) -> str:
        if self._child is not None:
            return "RUNNING" if self._child.state == "RUNNING" else "FINISHED"
        try:
            # A younger one of the same number is another.
            runs = psutil.Process(self._pid).create_time() <= self._at + _COARSE_S
        except psutil.NoSuchProcess:
            runs = False
        return "RUNNING" if runs else "FINISHED"

    def cancel(self, check: bool) -> None:
        if self.state == "RUNNING":
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(self._pid).terminate()


def has_ended(job: Job, launcher: Launcher) -> bool:
    """Whether the job is known to be over; without accounts of jobs, that is known for some minutes only."""
    state = job.state.upper().split()[0] if job.state else ""
    return state in _DEAD if launcher.cluster == SLURM else state in _GONE


def is_through(job: Job, launcher: Launcher) -> bool:
    """Whether Slurm says that the job did what it was told, a `setup` that leaves before the shard's turn included."""
    return launcher.cluster == SLURM and job.state.upper().startswith("COMPLETED")


def _parameters(launcher: Launcher) -> dict[str, Any]:
    """As sbatch has them; what is not said, the cluster decides."""
    said = {
        "partition": launcher.partition,
        "account": launcher.account,
        "gres": launcher.gres,
        "cpus_per_task": launcher.cpus_per_task,
        "setup": launcher.setup or None,
        "exclusive": True if launcher.exclusive else None,
    }
    return {
        "job_name": "attn-harness",
        "time": launcher.time,
        "nodes": 1,
        "ntasks_per_node": 1,
        "array_parallelism": launcher.array_parallelism,
        # A job that lost its node Slurm would begin again, minutes later, when the shard has long been in another job.
        "additional_parameters": {"no-requeue": True},
        **{name: value for name, value in said.items() if value is not None},
    }
