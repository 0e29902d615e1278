"""A sweep in shards, each a job of Slurm's or a process of its own: submit what is missing, and wait for it."""

import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from harness.case import Case
from harness.catalog import Traits
from harness.config import SweepConfig
from harness.errors import UsageError
from harness.sweep.launched.files import ENDED, LOGS, forget, read_plan, state_of, submitted, write_plan
from harness.sweep.launched.shards import shards_of
from harness.sweep.launched.submit import Job, has_ended, job_of, submit
from harness.sweep.launched.task import Shard
from harness.sweep.launched.watch import wait_for


def launch(
    cases: Sequence[Case], traits: Mapping[str, Traits], config: SweepConfig, out: Path, console: Console
) -> bool:
    """Measure what is missing of the run, elsewhere; whether all of it is there now. Without `wait`, submit alone."""
    run = out.resolve()
    plan = read_plan(run)
    if plan is None:
        plan = shards_of(cases, config.launcher.apart)
        write_plan(run, plan)
    shards = [Shard(run, index, config, traits, sys.path) for index in range(len(plan))]
    left = [shard for shard in shards if not _is_done(shard)]
    busy = [shard for shard in left if _is_under_way(shard)]
    missing = [shard for shard in left if shard not in busy]
    tell = partial(console.out, highlight=False)
    tell(f"{out}: {len(plan)} shards; {len(plan) - len(left)} have ended, {len(busy)} are under way")
    folder = run / LOGS
    for shard in missing:
        silent = job_of(shard, config.launcher)
        if silent is not None:
            _cancel(silent)
    if not config.wait:
        for shard in missing:
            forget(run, shard.index)
        jobs = submit(missing, config.launcher, folder) if missing else []
        for shard, job in zip(missing, jobs, strict=True):
            tell(f"shard {shard.index}: job {job.job_id}")
        tell(f"python -m harness status {out} tells how far it is; python -m harness report {out} what was found")
        return False
    lost = wait_for(
        missing,
        busy,
        config.launcher,
        partial(submit, launcher=config.launcher, folder=folder),
        tell,
        cancel=_cancel,
    )
    for shard in lost:
        print(f"harness: shard {shard.index} is not complete: its log is in {folder}", file=sys.stderr)
    return not lost


def check_nobody(out: Path, config: SweepConfig) -> None:
    """Raise UsageError where a job seems to be at work on the run, or to wait for its turn: it would write there."""
    run = out.resolve()
    for index, _ in enumerate(read_plan(run) or ()):
        if _is_under_way(Shard(run, index, config, {}, ())):
            raise UsageError(
                f"out={out}: shard {index} is under way: wait for it, or cancel its job and remove {run}/shards"
            )


def _cancel(job: Job) -> None:
    """Two jobs at one shard would measure everything twice."""
    job.cancel(check=False)


def _is_done(shard: Shard) -> bool:
    """Whether it has come to its end, and nothing of it is to be tried again."""
    state = state_of(shard.run, shard.index)
    return state is not None and state.state == ENDED and not shard.config.retry


def _is_under_way(shard: Shard) -> bool:
    """Whether a job seems to be at work on it, or to wait for its turn."""
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
