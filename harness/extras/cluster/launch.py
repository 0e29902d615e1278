"""Launch a sweep in shards: submit the missing shards and wait for them.

Each shard is a Slurm job, as part of an array, or a separate process on this machine. Both are submitted through
submitit.
"""

import functools
import io
import pickle
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from harness.core.config import SweepConfig
from harness.core.config.schema import PROCESSES, SLURM, Launcher
from harness.core.model.background_process import search_path
from harness.core.model.errors import UsageError, notify
from harness.core.model.formatting import counted
from harness.core.model.sweep_axes import Case
from harness.core.results.summarise import summarise_run
from harness.core.run.output_directory import OutputDirectory
from harness.core.run.session import Session

from . import shards as shard_files
from .shards import ENDED, LOGS, Shard

shards_table = shard_files.shards_table
# The values of `launcher.cluster` that are started here.
CLUSTERS = (SLURM, PROCESSES)
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

    def cancel(self) -> None:
        """Cancel the job if it still exists."""
        _ask("scancel", self.job_id)


@functools.lru_cache(maxsize=1)
def _accounts_answer(moment: int) -> bool:
    """Whether `sacct` works. Tested first, because submitit and `sacct` both print a complaint at each failure."""
    return _ask("sacct", "--noheader", "--jobs=1").returncode == 0


@functools.lru_cache(maxsize=1024)
def _state_now(job_id: str, moment: int) -> str:
    """The state of the job from the scheduler, which forgets a job some minutes after its end."""
    state = re.search(r"\bJobState=(\w+)", _ask("scontrol", "--oneliner", "show", "job", job_id).stdout)
    return state[1] if state else "UNKNOWN"


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", "")


# Uncertainty of a process's start time, in seconds. It is relative to the boot time, which is known in whole seconds.
_COARSE_S = 2.0


class _Process:
    """A process on this machine that existed at the time `at` of the system clock.

    `child` is submitit's job if this process started it. Its end must be queried, or it stays as a zombie.
    """

    def __init__(self, pid: int, at: float, child: Any = None) -> None:
        self.job_id, self._pid, self._at, self._child = str(pid), pid, at, child

    @property
    def state(self) -> str:
        """`RUNNING` or `FINISHED`."""
        if self._child is not None:
            return "RUNNING" if self._child.state == "RUNNING" else "FINISHED"
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._pid)
            # A process that started later is another one with the same number.
            if process.create_time() <= self._at + _COARSE_S and process.status() != psutil.STATUS_ZOMBIE:
                return "RUNNING"
        return "FINISHED"

    def cancel(self) -> None:
        """Terminate the process if it is still running."""
        if self.state == "RUNNING":
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self._pid).terminate()


Job = SlurmJob | _Process


def submit(shards: Sequence[Shard], is_awaited: bool = True) -> list[Job]:
    """Submit one job per shard of a run. Logs and pickles go into the run's directory, which the nodes must see too.

    On this machine, a command that does not wait starts at most `array_parallelism` processes. Each measures its shards
    one after the other. Raises UsageError if submitit or Slurm is missing, or if Slurm rejects the jobs.
    """
    launcher, folder = shards[0].config.launcher, shards[0].run / LOGS
    submitit = _submitit(launcher)
    rows = [[shard] for shard in shards]
    is_slurm = launcher.cluster == SLURM
    if is_slurm:
        kind, parameters = submitit.SlurmExecutor, _parameters(launcher)
    else:
        kind, parameters = submitit.LocalExecutor, {"timeout_min": launcher.time}
        if not is_awaited:
            number = min(launcher.array_parallelism, len(shards))
            rows = [[*shards[i::number]] for i in range(number)]
    # Ctrl-C reaches every process of the terminal. These ignore it and end without a traceback when terminated.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        executor = kind(folder=folder)
        executor.update_parameters(**parameters)
        with redirect_stderr(io.StringIO()):  # the error contains sbatch's message too
            submitted = list(_map(executor, shard_files.measure_cases, rows))
    except (RuntimeError, submitit.core.utils.FailedSubmissionError, submitit.core.utils.FailedJobError) as error:
        why = " ".join(str(error).split())[:300] or "no message"
        raise UsageError(f"launcher={launcher.cluster}: {why}") from error
    finally:
        signal.signal(signal.SIGINT, before)
    jobs: dict[int, Job] = {}
    for row, job in zip(rows, submitted, strict=True):
        for shard in row:
            shard_files.record_submission(shard.run, shard.index, job.job_id)
            number, now = job.job_id, time.time()
            jobs[shard.index] = SlurmJob(number, folder) if is_slurm else _Process(int(number), now, job)
    return [jobs[shard.index] for shard in shards]


def _map(executor: Any, task: Callable[[Any], None], arguments: Sequence[Any]) -> Any:
    """Submit a job per argument. Each job imports the harness of this process."""

    # A local function is pickled by value, so a job calls it before it imports any harness. A job first searches its
    # own current directory and environment for modules. These may hold another checkout.
    def begin(path: list[str], task: bytes) -> None:
        import pickle
        import sys

        sys.path[:] = path
        function, argument = pickle.loads(task)
        function(argument)

    path = search_path(sys.path)
    return executor.map_array(
        begin, [path] * len(arguments), [pickle.dumps((task, argument)) for argument in arguments]
    )


def _submitit(launcher: Launcher) -> Any:
    try:
        import submitit
    except ImportError as error:
        text = f"launcher={launcher.cluster} needs submitit: pip install 'attn-harness[slurm]'"
        raise UsageError(text) from error
    return submitit


def job_of(shard: Shard) -> Job | None:
    """The current or last job of the shard; None if its state cannot be queried from here."""
    state, submission = shard_files.read_state(shard.run, shard.index), shard_files.submitted(shard.run, shard.index)
    launcher, number = shard.config.launcher, submission[0] if submission else ""
    if state is not None:
        number = state.job
    if launcher.cluster == SLURM and number:
        _submitit(launcher)
        return SlurmJob(number, shard.run / LOGS)
    if state is not None and not state.job and state.host == platform.node():
        return _Process(state.pid, state.at)
    if launcher.cluster == PROCESSES and state is None and submission is not None:
        return _Process(int(submission[0]), submission[1])
    return None


COMPLETED = "COMPLETED"
# States of a job that has ended: those of Slurm for a job without a result, and that of a process on this machine.
_OVER = (
    *("FAILED", "NODE_FAIL", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "REVOKED"),
    "FINISHED",
)


def is_over(job: Job | None, *more: str) -> bool:
    """Whether the job has ended, in a state of `_OVER` or `more`. Files of a completed job may not be visible here yet.

    Without Slurm's accounting, this is known for some minutes only.
    """
    return job is not None and job.state.upper().startswith((*_OVER, *more))


def _parameters(launcher: Launcher) -> dict[str, Any]:
    """The parameters for sbatch. The cluster decides about settings that are left out."""
    settings = {
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
        **{name: value for name, value in settings.items() if value is not None},
    }


_LOOK_EVERY_S = 0.5
# Delay, in seconds, with which a shared file system may show what a node has written.
_LATE_S = 60.0


@dataclass
class _Attempt:
    """A shard and its job. `heard_s` is the time of its last sign of life, which `last_word` identifies.

    `last_word` is on the clock of the file system, which may differ from this machine's.
    """

    shard: Shard
    job: Job | None
    heard_s: float
    number: int = 1
    last_word: float | None = None

    def fate(self, now_s: float) -> str | None:
        """`ended`, or the reason why the attempt failed; None while the shard is queued or measured."""
        launcher, over = self.shard.config.launcher, is_over(self.job)
        # After the job's state: the last report may have been written just before the job's end.
        state = shard_files.read_state(self.shard.run, self.shard.index)
        # A local process must also have exited.
        gone = over or self.job is None or launcher.cluster != PROCESSES
        if state is not None and state.state == ENDED and gone:
            return ENDED
        if state is not None and state.at != self.last_word:
            self.last_word, self.heard_s = state.at, now_s
        silent_s = now_s - self.heard_s
        job = f"its job {self.job.job_id}" if self.job is not None else "its job"
        if self.job is not None and over:
            return f"{job} is over ({self.job.state})"
        # A job whose `setup` exits before the shard begins is completed, too.
        if is_over(self.job, COMPLETED) and silent_s > _LATE_S:
            return f"{job} has ended, but the shard has not: see its log"
        if state is not None and silent_s > launcher.silence_s:
            return f"no report for {silent_s:.0f} s"
        if state is None and silent_s > launcher.queue_s:
            return f"{job} has not started in {silent_s:.0f} s"
        return None


def wait_for(
    shards: Sequence[Shard],
    busy: Sequence[Shard],
    tell: Callable[[str], None],
    submit: Callable[[Sequence[Shard]], Sequence[Job]] = submit,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Shard]:
    """Submit the shards and wait until all have ended. Returns the shards that have not, after all their attempts.

    A shard has ended once its file in the run's directory says so. Because job states may stay unknown, there are
    deadlines too. The shards in `busy` have jobs of an earlier process and are waited for as well. A job that is given
    up is cancelled.
    """
    waiting = [(shard, 1) for shard in shards]
    under_way = [_Attempt(shard, job_of(shard), now_s()) for shard in busy]
    lost: list[Shard] = []
    while waiting or under_way:
        room = len(waiting)
        if waiting and (launcher := waiting[0][0].config.launcher).cluster == PROCESSES:
            room = max(0, launcher.array_parallelism - len(under_way))  # Slurm limits its jobs itself
        chosen, waiting = waiting[:room], waiting[room:]
        for shard, _ in chosen:
            shard_files.remove_states(shard.run, shard.index)
        jobs = submit([shard for shard, _ in chosen]) if chosen else []
        under_way += [_Attempt(shard, job, now_s(), n) for (shard, n), job in zip(chosen, jobs, strict=True)]
        for attempt in list(under_way):
            fate = attempt.fate(now_s())
            if fate is None:
                continue
            under_way.remove(attempt)
            if fate == ENDED:
                tell(f"shard {attempt.shard.index} has ended")
                continue
            if attempt.job is not None:
                attempt.job.cancel()
            if attempt.number < attempt.shard.config.launcher.attempts:
                tell(f"shard {attempt.shard.index}: {fate}; its unfinished cases are submitted again")
                waiting.append((attempt.shard, attempt.number + 1))
            else:
                tell(f"shard {attempt.shard.index}: {fate}; given up after {attempt.number} attempts")
                lost.append(attempt.shard)
        if under_way:
            sleep(_LOOK_EVERY_S)
    return lost


# How long to wait for cancelled processes to end.
_LEAVE_S = 15.0


def launch(target: OutputDirectory, session: Session, cases: Sequence[Case], console: Console) -> bool:
    """Measure the missing cases of the run in shards. Returns whether the run is complete.

    Without `wait`, only submit the shards and return False. The processes of `session` end first.
    """
    gpus = session.visible_gpus(target.config) if target.config.launcher.cluster == PROCESSES else None
    session.executor.drop()
    config, out, run = target.config, target.path, target.path.resolve()
    plan = shard_files.read_plan(run)
    if plan is None or set[Case]().union(*plan) != set(cases):
        plan = shard_files.shards_of(cases, config.launcher.apart)
        shard_files.write_plan(run, plan)
    shards = [Shard(run, index, config, session.layers, sys.path, gpus) for index in range(len(plan))]
    lines = summarise_run(run, config.precision)[0]
    left = [
        shard
        for shard in shards
        # Rows of an ended shard may be lost.
        if config.retry or not shard_files.is_ended(run, shard.index) or target.unfinished(plan[shard.index], lines, {})
    ]
    busy = [shard for shard in left if _is_under_way(shard)]
    missing = [shard for shard in left if shard not in busy]
    tell = console.out
    begun = f"{len(plan) - len(left)} have ended, {len(busy)} are under way"
    tell(f"{out}: {counted(len(plan), 'shard')}; {begun}, {len(missing)} to submit")
    for shard in missing:
        if (silent := job_of(shard)) is not None:
            silent.cancel()  # two jobs for one shard would measure everything twice
    if not config.wait:
        for shard in missing:
            shard_files.remove_states(run, shard.index)
        jobs = submit(missing, is_awaited=False) if missing else []
        for shard, job in zip(missing, jobs, strict=True):
            tell(f"shard {shard.index}: job {job.job_id}")
        tell(f"python -m harness status {out} shows the progress; python -m harness report {out} shows the results")
        return False
    try:
        lost = wait_for(missing, busy, tell)
    except KeyboardInterrupt:
        _interrupted(out, config, left)
        raise
    for shard in lost:
        notify(f"shard {shard.index} is not complete: its log is in {run / LOGS}")
    return not lost


def _interrupted(out: Path, config: SweepConfig, shards: Sequence[Shard]) -> None:
    """End the shards of an interrupted command, if they run on this machine. Slurm jobs on other nodes continue."""
    jobs = [job for shard in shards if (job := job_of(shard)) is not None and not is_over(job, COMPLETED)]
    if config.launcher.cluster == SLURM:
        if jobs:
            numbers = " ".join(job.job_id for job in jobs)
            text = f"`python -m harness status {out}` shows their progress, `scancel {numbers}` ends them"
            notify(f"its jobs continue: {text}")
        return
    for job in jobs:
        job.cancel()
    end = time.monotonic() + _LEAVE_S
    while (still := [job.job_id for job in jobs if not is_over(job)]) and time.monotonic() < end:
        time.sleep(0.05)
    text = f"processes {' '.join(still)} have not ended yet" if still else "its shards have been ended"
    notify(f"{text}; run the same command to continue {out}")


def check_settings(config: SweepConfig) -> None:
    """Raise UsageError, before anything is written, if Slurm is chosen but not available."""
    if config.launcher.cluster == SLURM and shutil.which("sbatch") is None:
        raise UsageError(
            "launcher=slurm: sbatch is not found: run this on a machine that submits to a cluster, "
            "or use launcher=processes here"
        )


def check_nobody_measures(target: OutputDirectory) -> None:
    """Raise UsageError if a job for the run seems to be running or queued: it would write there.

    A launch that continues the run waits for its jobs instead.
    """
    if target.uses_launcher and not target.fresh:
        return
    run = target.path.resolve()
    for index, _ in enumerate(shard_files.read_plan(run) or ()):
        if _is_under_way(Shard(run, index, target.config, {}, ())):
            raise UsageError(
                f"out={target.path}: shard {index} is under way: wait for it, or cancel its job and remove {run}/shards"
            )


def _is_under_way(shard: Shard) -> bool:
    """Whether a job for the shard, submitted by this process or an earlier one, seems to be running or queued."""
    state, submission = shard_files.read_state(shard.run, shard.index), shard_files.submitted(shard.run, shard.index)
    if state is not None and state.state != ENDED:
        attempt = _Attempt(shard, job_of(shard), state.at, last_word=state.at)
    elif state is None and submission is not None:
        attempt = _Attempt(shard, job_of(shard), submission[1])
    else:
        return False
    return attempt.fate(time.time()) is None
