"""The jobs of shards, submitted through submitit as a Slurm array or as processes on this machine, and their states."""

import contextlib
import functools
import io
import pickle
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil

from harness.checkout import search_path
from harness.config.schema import PROCESSES, SLURM, Launcher
from harness.errors import UsageError
from harness.measure import cluster_begin
from harness.measure.cluster_shards import LOGS, Shard, measure, measure_cases, read_state, record_submission, submitted

# Shortest time between two queries about the same thing, in seconds.
_ASK_EVERY_S = 20


class SlurmJob:
    """The Slurm job with this number: `12`, or `12_3` in an array. Its logs are in `folder`."""

    def __init__(self, job_id: str, folder: Path) -> None:
        import submitit  # an optional package

        self.job_id = job_id
        self._told: Any = submitit.SlurmJob(folder=folder, job_id=job_id)

    @property
    def state(self) -> str:
        """The state in Slurm's words, such as `RUNNING` or `CANCELLED by 0`; `UNKNOWN` if Slurm has no record.

        It comes from Slurm's accounting, or from the scheduler if there is no accounting.
        """
        moment = int(time.monotonic() / _ASK_EVERY_S)
        return self._told.state if _accounts_answer(moment) else _state_now(self.job_id, moment)

    def cancel(self, check: bool) -> None:
        """Cancel the job if it still exists. With `check`, raises CalledProcessError if `scancel` fails."""
        asked = _ask("scancel", self.job_id)
        if check:
            asked.check_returncode()


@functools.lru_cache(maxsize=1)
def _accounts_answer(moment: int) -> bool:
    """Whether `sacct` works. Tested first, because submitit and `sacct` both print a complaint at each failure."""
    return _ask("sacct", "--noheader", "--jobs=1").returncode == 0


@functools.lru_cache(maxsize=1024)
def _state_now(job_id: str, moment: int) -> str:
    """The state of the job from the scheduler, which forgets a job some minutes after its end."""
    found = re.search(r"\bJobState=(\w+)", _ask("scontrol", "--oneliner", "show", "job", job_id).stdout)
    return found[1] if found else "UNKNOWN"


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", "")


# Slurm's states of a job that cannot succeed any more.
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
# Uncertainty of a process's start time, in seconds. It is relative to the boot time, which is known in whole seconds.
_COARSE_S = 2.0
# State of a process on this machine that has ended.
_GONE = ("FINISHED",)


class Job(Protocol):
    """A submitted job."""

    @property
    def job_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    def cancel(self, check: bool) -> None: ...


def submit(shards: Sequence[Shard], launcher: Launcher, folder: Path) -> list[Job]:
    """Submit one job per shard. Logs and pickles go into `folder`, which the nodes must see too.

    Raises UsageError if submitit or Slurm is missing, or if Slurm rejects the jobs.
    """
    if launcher.cluster != SLURM:  # the processes start at once and report it themselves
        return _start(measure, shards, launcher, folder)
    submitit = _submitit(launcher)
    try:
        executor: Any = submitit.SlurmExecutor(folder=folder)
        executor.update_parameters(**_parameters(launcher))
        with contextlib.redirect_stderr(io.StringIO()):  # the error contains sbatch's message too
            jobs = list(_map(executor, measure, shards))
    except (RuntimeError, submitit.core.utils.FailedSubmissionError, submitit.core.utils.FailedJobError) as error:
        why = " ".join(str(error).split())[:300] or "it was refused without a word"
        raise UsageError(f"launcher={launcher.cluster}: {why}") from error

    for shard, job in zip(shards, jobs, strict=True):
        record_submission(shard.run, shard.index, job.job_id)
    return [SlurmJob(job.job_id, folder) for job in jobs]


def submit_all(shards: Sequence[Shard], launcher: Launcher, folder: Path) -> list[Job]:
    """Submit all shards for a command that does not wait for them.

    On this machine, at most `array_parallelism` processes start. Each measures its shards one after the other.
    """
    if launcher.cluster == SLURM:
        return submit(shards, launcher, folder)
    rows = [shards[i :: launcher.array_parallelism] for i in range(min(launcher.array_parallelism, len(shards)))]
    jobs = {}
    for row, job in zip(rows, _start(measure_cases, rows, launcher, folder), strict=True):
        for shard in row:
            record_submission(shard.run, shard.index, job.job_id)
            jobs[shard.index] = job
    return [jobs[shard.index] for shard in shards]


def _start(task: Callable[[Any], None], arguments: Sequence[Any], launcher: Launcher, folder: Path) -> list[Job]:
    """Start a process on this machine for each argument of the task. Raises UsageError if submitit is missing."""
    executor = _submitit(launcher).LocalExecutor(folder=folder)
    executor.update_parameters(timeout_min=launcher.time)
    # Ctrl-C reaches every process of the terminal. These ignore it and end without a traceback when terminated.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        jobs = _map(executor, task, arguments)
    finally:
        signal.signal(signal.SIGINT, before)
    return [_Process(int(job.job_id), time.time(), job) for job in jobs]


def _map(executor: Any, task: Callable[[Any], None], arguments: Sequence[Any]) -> Any:
    """Submit a job per argument. Each job imports the harness of this process."""
    import cloudpickle  # comes with submitit

    cloudpickle.register_pickle_by_value(cluster_begin)
    path = search_path(sys.path)
    return executor.map_array(
        cluster_begin.begin, [path] * len(arguments), [pickle.dumps((task, one)) for one in arguments]
    )


def _submitit(launcher: Launcher) -> Any:
    try:
        import submitit
    except ImportError as error:
        told = f"launcher={launcher.cluster} needs submitit: pip install 'attn-harness[slurm]'"
        raise UsageError(told) from error
    return submitit


def job_of(shard: Shard, launcher: Launcher) -> Job | None:
    """The current or last job of the shard; None if its state cannot be queried from here."""
    state, given = read_state(shard.run, shard.index), submitted(shard.run, shard.index)
    number = state.job if state is not None else given[0] if given is not None else ""
    if launcher.cluster == SLURM and number:
        _submitit(launcher)
        return SlurmJob(number, shard.run / LOGS)
    if state is not None and not state.job and state.host == platform.node():
        return _Process(state.pid, state.at)
    if launcher.cluster == PROCESSES and state is None and given is not None:
        return _Process(int(given[0]), given[1])
    return None


class _Process:
    """A process on this machine that existed at the time `at` of the system clock.

    `child` is submitit's job if this process started it. Only its parent can query its end.
    """

    def __init__(self, pid: int, at: float, child: Any = None) -> None:
        self.job_id, self._pid, self._at, self._child = str(pid), pid, at, child

    @property
    def state(self) -> str:
        if self._child is not None:
            return "RUNNING" if self._child.state == "RUNNING" else "FINISHED"
        try:
            # A process that started later is another one with the same number.
            runs = psutil.Process(self._pid).create_time() <= self._at + _COARSE_S
        except psutil.NoSuchProcess:
            runs = False
        return "RUNNING" if runs else "FINISHED"

    def cancel(self, check: bool) -> None:
        if self.state == "RUNNING":
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(self._pid).terminate()


def has_ended(job: Job, launcher: Launcher) -> bool:
    """Whether the job has definitely ended. Without Slurm's accounting, this is known for some minutes only."""
    state = job.state.upper().split()[0] if job.state else ""
    return state in _DEAD if launcher.cluster == SLURM else state in _GONE


def is_finished(job: Job, launcher: Launcher) -> bool:
    """Whether Slurm reports the job as completed.

    This includes a job whose `setup` exits before the shard begins.
    """
    return launcher.cluster == SLURM and job.state.upper().startswith("COMPLETED")


def _parameters(launcher: Launcher) -> dict[str, Any]:
    """The parameters for sbatch. The cluster decides about settings that are left out."""
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
        # Slurm would restart a job that lost its node minutes later, when another job already has the shard.
        "additional_parameters": {"no-requeue": True},
        **{name: value for name, value in said.items() if value is not None},
    }
