"""Measure one shard on its node: the usual driver, with the shard's cases, into the same run directory."""

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
    """The input of a job: the run, the index of its shard, the configuration and the search path for layers.

    `gpus` is the value of CUDA_VISIBLE_DEVICES in the submitting process, or None. Slurm sets the variable itself.
    """

    run: Path
    index: int
    config: SweepConfig
    traits: Mapping[str, Traits]
    path: Sequence[str]
    gpus: str | None = None


def measure(shard: Shard) -> None:
    """Measure the unfinished cases of the shard."""
    measure_each([shard])


def measure_each(shards: Sequence[Shard]) -> None:
    """Measure the unfinished cases of the shards, one after the other. A failing shard does not stop the next one."""
    # Whatever starts a job may suppress SIGTERM until Slurm kills the job. By then another job has the shard.
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
    """Measure one shard. `given` is the number of CPUs of the job; the layers use only their number of threads."""
    run, config = shard.run, shard.config
    _bind(config, shard.gpus)
    plan = read_plan(run)
    assert plan is not None
    cases = plan[shard.index]
    say(run, shard.index, RUNNING)
    # A directory per host: several nodes may compile at the same time.
    cache = run / "compile-cache" / platform.node()
    with runner_of(config, cache, shard.path) as runner:
        check_devices(config, runner)
        machine = describe_machine(runner.run("machine"), given)
        store.add_machine(run, machine)
        past, _ = past_of(run)
        # Times from another kind of machine cannot be combined with times from this one.
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
    """Bind this process to as many of the job's CPUs as the layers have threads. Hide GPUs unless a case uses CUDA."""
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
