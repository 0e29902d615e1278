"""A sweep in shards, each a Slurm job or a separate process: submit the missing shards and wait for them."""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from harness.case import Case
from harness.catalog import Traits
from harness.config import SweepConfig
from harness.config.launcher import SLURM
from harness.errors import UsageError
from harness.sweep.launched.files import ENDED, LOGS, forget, read_plan, state_of, submitted, write_plan
from harness.sweep.launched.shards import shards_of
from harness.sweep.launched.submit import Job, has_ended, job_of, submit, submit_all
from harness.sweep.launched.task import Shard
from harness.sweep.launched.watch import wait_for

# How long to wait for cancelled processes to end.
_LEAVE_S = 15.0


def launch(
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
            forget(run, shard.index)
        jobs = submit_all(missing, config.launcher, folder) if missing else []
        for shard, job in zip(missing, jobs, strict=True):
            tell(f"shard {shard.index}: job {job.job_id}")
        tell(f"python -m harness status {out} tells how far it is; python -m harness report {out} what was found")
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
            told = f"`python -m harness status {out}` tells how far they are, `scancel {numbers}` ends them"
            print(f"harness: its jobs go on: {told}", file=sys.stderr)
        return
    for job in left:
        _cancel(job)
    end = time.monotonic() + _LEAVE_S
    while any(not has_ended(job, config.launcher) for job in left) and time.monotonic() < end:
        time.sleep(0.05)
    still = [job.job_id for job in left if not has_ended(job, config.launcher)]
    told = f"processes {' '.join(still)} have not ended yet" if still else "its shards have been ended"
    print(f"harness: {told}; the same command goes on with {out}", file=sys.stderr)


def check_cluster(config: SweepConfig) -> None:
    """Raise UsageError, before anything is written, if Slurm is chosen but not available."""
    if config.launcher.cluster == SLURM and shutil.which("sbatch") is None:
        raise UsageError(
            "launcher=slurm: there is no sbatch here: run it on a machine that submits to a cluster, "
            "or with launcher=processes on this one"
        )


def check_nobody(out: Path, config: SweepConfig) -> None:
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
    state = state_of(shard.run, shard.index)
    return state is not None and state.state == ENDED and not shard.config.retry


def _is_under_way(shard: Shard) -> bool:
    """Whether a job for the shard seems to be running or queued."""
    state, given = state_of(shard.run, shard.index), submitted(shard.run, shard.index)
    launcher = shard.config.launcher
    if state is not None:
        expected = state.state != ENDED and time.time() - state.at <= launcher.silence_s
    else:
        expected = given is not None and time.time() - given[1] <= launcher.queue_s
    if not expected:
        return False
    job = job_of(shard, launcher)
    return job is None or not has_ended(job, launcher)
