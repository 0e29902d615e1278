"""Wait for shards by their files in the run's directory, and by deadlines, because job states may stay unknown."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.config.launcher import PROCESSES
from harness.config.schema import Launcher
from harness.sweep.launched.files import ENDED, forget, state_of
from harness.sweep.launched.submit import Job, has_ended, is_through, job_of
from harness.sweep.launched.task import Shard

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

    The shards in `busy` have jobs of an earlier process and are waited for too. A job that is given up is cancelled.
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
            forget(shard.run, shard.index)
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
                tell(f"shard {one.shard.index}: {fate}; what is left of it is submitted again")
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
    state = state_of(one.shard.run, one.shard.index)
    # A local process must also have exited.
    gone = one.job is None or launcher.cluster != PROCESSES or has_ended(one.job, launcher)
    if state is not None and state.state == ENDED and gone:
        return ENDED
    if state is not None and (not one.begun or state.at != one.last_word):
        one.begun, one.last_word, one.heard_s = True, state.at, now_s
    if one.job is not None and has_ended(one.job, launcher):
        # The last report may have been written after the first look above.
        state = state_of(one.shard.run, one.shard.index)
        return (
            ENDED
            if state is not None and state.state == ENDED
            else f"its job {one.job.job_id} is over ({one.job.state})"
        )
    silent_s = now_s - one.heard_s
    if one.job is not None and is_through(one.job, launcher) and silent_s > _LATE_S:
        return f"its job {one.job.job_id} came to its end and the shard did not: see its log"
    if one.begun and silent_s > launcher.silence_s:
        return f"nothing was heard of it for {silent_s:.0f} s"
    if one.job is not None and not one.begun and silent_s > launcher.queue_s:
        return f"its job {one.job.job_id} has not begun in {silent_s:.0f} s"
    return None
