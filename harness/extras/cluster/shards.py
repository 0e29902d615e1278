"""The shards of a sweep: which cases belong to each, their files in the run's directory, and the measurement of one.

Beside the rows, a run's directory holds these files:

    shards/plan.json   the cases of each shard
    shards/0003.json   the state of shard 3: host, process, job, time, and whether it has ended
    shards/0003.job    the number of its last job
"""

import os
import platform
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from harness.core.config import SweepConfig
from harness.core.config.key_value_options import usable_cpus
from harness.core.config.machine import Machine, gpu_states, unlike, unlike_gpus, with_gpus
from harness.core.layers.layer_lookup import Layer
from harness.core.model import gpus
from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_json, write_json
from harness.core.model.file_validation import checked
from harness.core.model.formatting import duration
from harness.core.model.sweep_axes import Case, device_kind
from harness.core.results import run_directory
from harness.core.results.columns import CaseResult
from harness.core.run.fork_client import Runtime
from harness.core.run.scheduler import read_resume_state
from harness.core.run.session import Session
from harness.study.report.document import Table, grouped

RUNNING, ENDED = "running", "ended"
# Directory in the run for the scripts, pickles and logs of jobs.
LOGS = "jobs"


@dataclass(frozen=True)
class State:
    """The state of one shard, `running` or `ended`, with its host, process and job, and the time of the last report."""

    state: str
    host: str
    pid: int
    job: str
    at: float


def write_plan(run: Path, shards: Sequence[Sequence[Case]]) -> None:
    """Write the cases of each shard to the plan."""
    (run / "shards").mkdir(exist_ok=True)
    write_json(run / "shards" / "plan.json", [[case.as_dict() for case in shard] for shard in shards])


def read_plan(run: Path) -> list[tuple[Case, ...]] | None:
    """The cases of each shard; None if the run has no shards. Raises UsageError for a damaged plan."""
    path = run / "shards" / "plan.json"
    try:
        return [tuple(map(Case.from_dict, shard)) for shard in read_json(path)]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        text = f"{path} is not a plan of shards: remove it: the next sweep plans again and keeps all rows"
        raise UsageError(text) from error


def write_state(run: Path, shard: int, state: str) -> None:
    """Write the state of a shard. Called by the process that measures it."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    job = f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")
    now = State(state, platform.node(), os.getpid(), job, time.time())
    write_json(_path(run, shard), asdict(now))


def read_state(run: Path, shard: int) -> State | None:
    """The last reported state of the shard; None if it has not begun.

    `at` is the time of the report or of the shard's last row, whichever is later.
    """
    path = _path(run, shard)
    try:
        then = checked(State, read_json(path))
        rows = (file.stat().st_mtime for file in (run / "rows").glob(f"*-{then.host}-{then.pid}.jsonl"))
        return replace(then, at=max(path.stat().st_mtime, *rows, 0.0))
    except (OSError, ValueError):
        return None


def record_submission(run: Path, shard: int, job: str) -> None:
    """Write the job of a shard. Called by the process that submits it.

    The job has a separate file, because the shard may report its state first.
    """
    write_json(_path(run, shard, "job"), job)


def submitted(run: Path, shard: int) -> tuple[str, float] | None:
    """The last job of the shard and the time it was submitted; None if unknown."""
    path = _path(run, shard, "job")
    try:
        return str(read_json(path)), path.stat().st_mtime
    except (OSError, ValueError):
        return None


def remove_states(run: Path, shard: int) -> None:
    """Remove the state and job of the shard, so that they are not taken for those of its next job."""
    for path in (_path(run, shard), _path(run, shard, "job")):
        path.unlink(missing_ok=True)


def is_ended(run: Path, shard: int) -> bool:
    """Whether the shard has ended, as its state says."""
    state = read_state(run, shard)
    return state is not None and state.state == ENDED


def _path(run: Path, shard: int, of: str = "json") -> Path:
    return run / "shards" / f"{shard:04d}.{of}"


def shards_of(cases: Iterable[Case], apart: Collection[str]) -> list[tuple[Case, ...]]:
    """Group the cases by their values of the axes `apart`. Cases with the same values share a shard.

    Cases that are compared with each other are thus measured on one node.
    """
    groups = grouped(sorted(cases), lambda case: tuple(getattr(case, axis) for axis in apart))
    return [tuple(group) for group in groups.values()]


@dataclass(frozen=True)
class Shard:
    """The input of a job: the run, the index of its shard, the configuration and the search path for layers.

    `gpus` are the GPUs of this machine that the processes of its shards share, as CUDA_VISIBLE_DEVICES lists them. It
    is None for a shard of Slurm, which sets the variable itself.
    """

    run: Path
    index: int
    config: SweepConfig
    layers: Mapping[str, Layer]
    path: Sequence[str]
    gpus: Sequence[str] | None = None


def measure_cases(shards: Sequence[Shard]) -> None:
    """Measure the unfinished cases of the shards, one after the other. A failing shard does not stop the next one."""
    # Whatever starts a job may suppress SIGTERM until Slurm kills the job. By then another job has the shard.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    cpus = usable_cpus()
    failures: list[Exception] = []
    for shard in shards:
        try:
            _measure(shard, cpus)
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]  # into the job's log


def _measure(shard: Shard, cpus: int | None) -> None:
    """Measure one shard on its node: with the usual scheduler, the shard's cases, and into the same run directory.

    `cpus` is the number of CPUs of the job; the layers use only their number of threads.
    """
    run, config = shard.run, shard.config
    place = _choose_gpu(config, shard.gpus)
    _bind_to_cpus(max(config.axes["threads"]), place)
    plan = read_plan(run)
    assert plan is not None
    cases = plan[shard.index]
    write_state(run, shard.index, RUNNING)
    # A directory per host: several nodes may compile at the same time.
    cache = run / "compile-cache" / platform.node()
    with Session.of(config, cache, Runtime(path=shard.path)) as session:
        session.layers.update(shard.layers)
        session.check_devices(config)
        machine = session.machine(cpus)
        past, _ = read_resume_state(run)
        # Times from another kind of machine, or of GPU, cannot be combined with times from this one.
        other_hosts = [
            host
            for host, other in run_directory.machines(run)[0].items()
            if (unlike_gpus if host == machine["host"] else unlike)(other, machine)
        ]
        add_machine(run, machine)
        why = f"started on another kind of machine than {platform.node()}"
        past = past.reopening(config.retry).without_times_of(other_hosts, why)
        console = Console(file=sys.stdout, width=100, highlight=False)
        session.measure_into(run, cases, console, past=past, grow=config.grow, order=shard.index)
    write_state(run, shard.index, ENDED)


def _choose_gpu(config: SweepConfig, visible: Sequence[str] | None) -> int:
    """Let this process see the GPUs of its cases. Return the place of its GPU among `visible`, or 0.

    A shard whose cases name no number waits for a GPU that no other shard has, and sees that one alone.
    """
    devices = config.axes["device"]
    kind = next((kind for kind in map(device_kind, devices) if kind in gpus.NUMBERED), None)
    if kind is None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if kind is None or not visible:
        return 0
    # submitit gives a process no GPU of this machine.
    os.environ[gpus.variable_of(kind)] = ",".join(visible)
    if kind not in devices:
        return 0
    place = gpus.take_free_gpu(kind, visible)
    os.environ[gpus.variable_of(kind)] = visible[place]
    return place


def _bind_to_cpus(threads: int, place: int) -> None:
    """Bind this process to as many of the job's CPUs as the layers have threads: others than those of another place."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        first = place * threads if (place + 1) * threads <= len(allowed) else 0
        os.sched_setaffinity(0, allowed[first : first + threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)


def shards_table(run: Path, lines: Mapping[Case, CaseResult]) -> Table | None:
    """How far each shard of a run is, and who measures it; None for a run without shards."""
    plan = read_plan(run)
    if plan is None:
        return None
    rows = []
    for index, cases in enumerate(plan):
        begun = [lines[case] for case in cases if case in lines]
        finished = sum(line.is_finished for line in begun)
        where, ago = ("waiting", "", ""), ""
        if state := read_state(run, index):
            where = (state.state, state.host, state.job or f"process {state.pid}")
            ago = f"{duration(max(0.0, time.time() - state.at))} ago"
        numbers = (finished, len(begun) - finished, len(cases) - len(begun))
        rows.append((str(index), *where, *map(str, numbers), ago))
    texts, numeric = ("shard", "state", "host", "job"), ("finished", "begun", "not yet")
    return Table({**dict.fromkeys(texts, ""), **dict.fromkeys(numeric, "n"), "last word": ""}, rows)


def add_machine(run: Path, machine: Machine) -> None:
    """Store the machine of another host in `machines/`, under the name of the host and of each of its GPUs.

    Several jobs may measure on one host at the same time, each on its own GPU. They write different files.
    """
    (run / "machines").mkdir(exist_ok=True)
    host, states = machine["host"], gpu_states(machine)
    described = {f"{host}.{uuid}": with_gpus(machine, {uuid: state}) for uuid, state in states.items()}
    for name, description in (described or {host: dict(machine)}).items():
        write_json(run / "machines" / f"{name}.json", description)
