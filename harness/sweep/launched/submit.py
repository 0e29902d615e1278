"""Jobs for shards, through submitit: of Slurm's, an array; or processes of this machine."""

import contextlib
import io
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil

from harness.config.launcher import PROCESSES, SLURM
from harness.config.schema import Launcher
from harness.errors import UsageError
from harness.sweep.launched.files import LOGS, State, say_submitted, state_of, submitted
from harness.sweep.launched.task import Shard, measure

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
# What submitit says of a process of this machine that has gone.
_GONE = ("INTERRUPTED", "FINISHED")


class Job(Protocol):
    """One that was submitted."""

    @property
    def job_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    def cancel(self, check: bool) -> None: ...


def submit(shards: Sequence[Shard], launcher: Launcher, folder: Path) -> list[Job]:
    """Submit the shards, logs and pickles into `folder`, which their nodes must see too.

    Raises UsageError where there is no submitit or no Slurm, or Slurm refuses.
    """
    submitit = _submitit(launcher)
    try:
        if launcher.cluster == SLURM:
            executor: Any = submitit.SlurmExecutor(folder=folder)
            executor.update_parameters(**_parameters(launcher))
        else:
            executor = submitit.LocalExecutor(folder=folder)
            executor.update_parameters(timeout_min=launcher.time)
        with contextlib.redirect_stderr(io.StringIO()):  # what sbatch complains of is in the error too
            jobs = list(executor.map_array(measure, shards))
    except (RuntimeError, submitit.core.utils.FailedSubmissionError, submitit.core.utils.FailedJobError) as error:
        why = " ".join(str(error).split())[:300] or "it was refused without a word"
        raise UsageError(f"launcher={launcher.cluster}: {why}") from error
    if launcher.cluster != SLURM:  # they begin at once, and say so themselves
        return jobs
    from harness.sweep.launched.slurm import SlurmJob

    for shard, job in zip(shards, jobs, strict=True):
        say_submitted(shard.run, shard.index, job.job_id)
    return [SlurmJob(job.job_id, folder) for job in jobs]


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
    if launcher.cluster == PROCESSES and state is not None and state.host == platform.node():
        return _Earlier(state)
    return None


class _Earlier:
    """A process of this machine that an earlier command has started."""

    def __init__(self, said: State) -> None:
        self.job_id, self._said = str(said.pid), said

    @property
    def state(self) -> str:
        try:
            # A younger one of the same number is another.
            runs = psutil.Process(self._said.pid).create_time() <= self._said.at
        except psutil.NoSuchProcess:
            runs = False
        return "RUNNING" if runs else "FINISHED"

    def cancel(self, check: bool) -> None:
        if self.state == "RUNNING":
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(self._said.pid).terminate()


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
