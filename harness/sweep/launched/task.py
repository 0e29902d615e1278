"""One shard, on the node where it runs: the same driver, over its own cases, into the same run's directory."""

import os
import platform
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console

from harness import store
from harness.catalog import Traits
from harness.config import SweepConfig
from harness.config.launcher import PROCESSES
from harness.machine import describe_machine, unlike, usable_cpus
from harness.summary.past import past_of
from harness.sweep.configured import check_devices, runner_of
from harness.sweep.driver import Sweep
from harness.sweep.launched.files import ENDED, RUNNING, read_plan, say
from harness.sweep.progress import Screen


@dataclass(frozen=True)
class Shard:
    """What a job is given: the run and which of its shards, how to measure, and where layers are looked for.

    `gpus`: what CUDA_VISIBLE_DEVICES was where it was submitted, None for nothing; Slurm says it anew.
    """

    run: Path
    index: int
    config: SweepConfig
    traits: Mapping[str, Traits]
    path: Sequence[str]
    gpus: str | None = None


def measure(shard: Shard) -> None:
    """Measure what is missing of the shard."""
    measure_each([shard])


def measure_each(shards: Sequence[Shard]) -> None:
    """Measure what is missing of the shards, one after the other; what becomes of one keeps no other back."""
    # Whoever starts a job may hold this back until Slurm kills it, when the shard has long been given to another job.
    signal.signal(signal.SIGTERM, _end)
    given = usable_cpus()
    failures: list[Exception] = []
    for shard in shards:
        try:
            _measure(shard, given)
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]  # into the job's log


def _measure(shard: Shard, given: int | None) -> None:
    """`given`: how many CPUs the job has, of which the layers may use no more than they are told."""
    run, config = shard.run, shard.config
    _bind(config, shard.gpus)
    plan = read_plan(run)
    assert plan is not None
    cases = plan[shard.index]
    say(run, shard.index, RUNNING)
    # By host: several nodes may compile at the same time.
    cache = run / "compile-cache" / platform.node()
    with runner_of(config, cache, shard.path) as runner:
        check_devices(config, runner)
        machine = describe_machine(runner.run("machine"), given)
        store.add_machine(run, machine)
        past, _ = past_of(run)
        # Of trials on another kind of machine nothing can be made together with those of this one.
        others = [host for host, other in store.machines(run).items() if unlike(other, machine)]
        why = f"begun on another kind of machine than {platform.node()}"
        past = past.reopening(config.retry).without_times_of(others, why)
        writer = store.RowWriter(run)
        try:
            with Screen(cases, config.precision, Console(file=sys.stdout, width=100)) as screen:
                Sweep(
                    cases,
                    shard.traits,
                    config.precision,
                    runner,
                    writer,
                    screen,
                    config.seed + shard.index,
                    past=past,
                    grow=config.grow,
                ).run()
        finally:
            writer.close()
    say(run, shard.index, ENDED)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _bind(config: SweepConfig, gpus: str | None) -> None:
    """As many CPUs as the layers may use, of those that the job has, and no GPU that nobody asked for."""
    threads = max(config.axes["threads"])
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if "cuda" not in config.axes["device"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif config.launcher.cluster == PROCESSES:  # submitit gives a process no GPU of this machine
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if gpus is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus
