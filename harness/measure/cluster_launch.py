"""Launch a sweep in shards, each a Slurm job or a separate process: submit the missing shards and wait for them."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from harness.case import Case
from harness.config import SweepConfig
from harness.config.schema import PROCESSES, SLURM, Launcher
from harness.errors import UsageError
from harness.measure.cluster_shards import (
    ENDED,
    LOGS,
    Shard,
    read_plan,
    read_state,
    remove_states,
    shards_of,
    submitted,
    write_plan,
)
from harness.measure.cluster_submit import Job, has_ended, is_finished, job_of, submit, submit_all
from harness.registry import Traits

_LOOK_EVERY_S = 0.5
# Delay, in seconds, with which a shared file system may show what a node has written.
_LATE_S = 60.0

Submit = Callable[[Sequence[Shard]], Sequence[Job]]


@dataclass
class _Try:
    """A shard and its job. `heard_s` is the time of the last sign of life, on the monotonic clock."""

    shard: Shard
    job: Job | None
    number: int
    heard_s: float
    last_word: float = 0.0  # on the clock of the file system, which may differ from this machine's
    begun: bool = False


def wait_for(
    shards: Sequence[Shard],
    busy: Sequence[Shard],
    launcher: Launcher,
    submit: Submit,
    tell: Callable[[str], None],
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    cancel: Callable[[Job], None] = lambda job: None,
) -> list[Shard]:
    """Submit the shards and wait until all have ended. Returns the shards that have not, after all their attempts.

    A shard has ended once its file in the run's directory says so. Because job states may stay unknown, there are
    deadlines too. The shards in `busy` have jobs of an earlier process and are waited for as well. A job that is given
    up is cancelled.
    """
    waiting = [(shard, 1) for shard in shards]
    under_way = [_Try(shard, job_of(shard, launcher), 1, now_s()) for shard in busy]
    lost: list[Shard] = []
    # On a cluster, Slurm limits the number of running jobs. Local processes are limited here.
    at_a_time = launcher.array_parallelism if launcher.cluster == PROCESSES else len(shards) + len(busy)
    while waiting or under_way:
        room = max(0, at_a_time - len(under_way))
        chosen, waiting = waiting[:room], waiting[room:]
        for shard, _ in chosen:
            remove_states(shard.run, shard.index)
        if chosen:
            jobs = submit([shard for shard, _ in chosen])
            under_way += [_Try(shard, job, n, now_s()) for (shard, n), job in zip(chosen, jobs, strict=True)]
        left = []
        for one in under_way:
            fate = _look(one, launcher, now_s())
            if fate is None:
                left.append(one)
                continue
            if fate == ENDED:
                tell(f"shard {one.shard.index} has ended")
                continue
            if one.job is not None:
                cancel(one.job)
            if one.number < launcher.attempts:
                tell(f"shard {one.shard.index}: {fate}; its unfinished cases are submitted again")
                waiting.append((one.shard, one.number + 1))
            else:
                tell(f"shard {one.shard.index}: {fate}, for the {one.number}. time: given up")
                lost.append(one.shard)
        under_way = left
        if under_way:
            sleep(_LOOK_EVERY_S)
    return lost


def _look(one: _Try, launcher: Launcher, now_s: float) -> str | None:
    """`ended`, or the reason why the attempt failed; None while it continues."""
    state = read_state(one.shard.run, one.shard.index)
    # A local process must also have exited.
    gone = one.job is None or launcher.cluster != PROCESSES or has_ended(one.job, launcher)
    if state is not None and state.state == ENDED and gone:
        return ENDED
    if state is not None and (not one.begun or state.at != one.last_word):
        one.begun, one.last_word, one.heard_s = True, state.at, now_s
    if one.job is not None and has_ended(one.job, launcher):
        # The last report may have been written after the first look above.
        state = read_state(one.shard.run, one.shard.index)
        return (
            ENDED
            if state is not None and state.state == ENDED
            else f"its job {one.job.job_id} is over ({one.job.state})"
        )
    silent_s = now_s - one.heard_s
    if one.job is not None and is_finished(one.job, launcher) and silent_s > _LATE_S:
        return f"its job {one.job.job_id} came to its end and the shard did not: see its log"
    if one.begun and silent_s > launcher.silence_s:
        return f"nothing was heard of it for {silent_s:.0f} s"
    if one.job is not None and not one.begun and silent_s > launcher.queue_s:
        return f"its job {one.job.job_id} has not started in {silent_s:.0f} s"
    return None


# How long to wait for cancelled processes to end.
_LEAVE_S = 15.0


def launch_on_cluster(
    cases: Sequence[Case], traits: Mapping[str, Traits], config: SweepConfig, out: Path, console: Console
) -> bool:
    """Measure the missing cases of the run in shards. Returns whether the run is complete.

    Without `wait`, only submit the shards and return False.
    """
    run = out.resolve()
    plan = read_plan(run)
    if plan is None:
        plan = shards_of(cases, config.launcher.apart)
        write_plan(run, plan)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
    shards = [Shard(run, index, config, traits, sys.path, gpus) for index in range(len(plan))]
    left = [shard for shard in shards if not _is_done(shard)]
    busy = [shard for shard in left if _is_under_way(shard)]
    missing = [shard for shard in left if shard not in busy]
    tell = partial(console.out, highlight=False)
    several = "shards" if len(plan) > 1 else "shard"
    begun = f"{len(plan) - len(left)} have ended, {len(busy)} are under way"
    tell(f"{out}: {len(plan)} {several}; {begun}, {len(missing)} to submit")
    folder = run / LOGS
    for shard in missing:
        silent = job_of(shard, config.launcher)
        if silent is not None:
            _cancel(silent)
    if not config.wait:
        for shard in missing:
            remove_states(run, shard.index)
        jobs = submit_all(missing, config.launcher, folder) if missing else []
        for shard, job in zip(missing, jobs, strict=True):
            tell(f"shard {shard.index}: job {job.job_id}")
        tell(f"python -m harness status {out} shows the progress; python -m harness report {out} shows the results")
        return False
    jobs_here: list[Job] = []

    def submitted_now(shards: Sequence[Shard]) -> list[Job]:
        jobs = submit(shards, config.launcher, folder)
        jobs_here.extend(jobs)
        return jobs

    try:
        lost = wait_for(missing, busy, config.launcher, submitted_now, tell, cancel=_cancel)
    except KeyboardInterrupt:
        _interrupted(out, config, [*jobs_here, *(job_of(shard, config.launcher) for shard in busy)])
        raise
    for shard in lost:
        print(f"harness: shard {shard.index} is not complete: its log is in {folder}", file=sys.stderr)
    return not lost


def _interrupted(out: Path, config: SweepConfig, jobs: Sequence[Job | None]) -> None:
    """End the shards of an interrupted command, if they run on this machine. Slurm jobs on other nodes continue."""
    left = [job for job in jobs if job is not None and not has_ended(job, config.launcher)]
    if config.launcher.cluster == SLURM:
        if left:
            numbers = " ".join(job.job_id for job in left)
            told = f"`python -m harness status {out}` shows their progress, `scancel {numbers}` ends them"
            print(f"harness: its jobs continue: {told}", file=sys.stderr)
        return
    for job in left:
        _cancel(job)
    end = time.monotonic() + _LEAVE_S
    while any(not has_ended(job, config.launcher) for job in left) and time.monotonic() < end:
        time.sleep(0.05)
    still = [job.job_id for job in left if not has_ended(job, config.launcher)]
    told = f"processes {' '.join(still)} have not ended yet" if still else "its shards have been ended"
    print(f"harness: {told}; run the same command to continue {out}", file=sys.stderr)


def check_cluster_settings(config: SweepConfig) -> None:
    """Raise UsageError, before anything is written, if Slurm is chosen but not available."""
    if config.launcher.cluster == SLURM and shutil.which("sbatch") is None:
        raise UsageError(
            "launcher=slurm: there is no sbatch here: run it on a machine that submits to a cluster, "
            "or with launcher=processes on this one"
        )


def check_nobody_measures(out: Path, config: SweepConfig) -> None:
    """Raise UsageError if a job for the run seems to be running or queued: it would write there."""
    run = out.resolve()
    for index, _ in enumerate(read_plan(run) or ()):
        if _is_under_way(Shard(run, index, config, {}, ())):
            raise UsageError(
                f"out={out}: shard {index} is under way: wait for it, or cancel its job and remove {run}/shards"
            )


def _cancel(job: Job) -> None:
    """Cancel a job: two jobs for one shard would measure everything twice."""
    job.cancel(check=False)


def _is_done(shard: Shard) -> bool:
    """Whether the shard has ended, and none of its cases are to be retried."""
    state = read_state(shard.run, shard.index)
    return state is not None and state.state == ENDED and not shard.config.retry


def _is_under_way(shard: Shard) -> bool:
    """Whether a job for the shard seems to be running or queued."""
    state, given = read_state(shard.run, shard.index), submitted(shard.run, shard.index)
    launcher = shard.config.launcher
    if state is not None:
        expected = state.state != ENDED and time.time() - state.at <= launcher.silence_s
    else:
        expected = given is not None and time.time() - given[1] <= launcher.queue_s
    if not expected:
        return False
    job = job_of(shard, launcher)
    return job is None or not has_ended(job, launcher)
