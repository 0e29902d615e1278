"""The files of shards in a run's directory, beside the rows: the plan, and the state and job of each shard.

shards/plan.json   the cases of each shard
shards/0003.json   the state of shard 3: host, process, job, time, and whether it has ended
shards/0003.job    the number of its last job
"""

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.bounded_file import read_json
from harness.case import Case
from harness.errors import UsageError
from harness.whole_file import write_whole

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
    _write(run / "shards" / "plan.json", [[case.as_dict() for case in shard] for shard in shards])


def read_plan(run: Path) -> list[tuple[Case, ...]] | None:
    """The cases of each shard; None if the run has no shards. Raises UsageError for a damaged plan."""
    path = run / "shards" / "plan.json"
    try:
        return [tuple(map(Case.from_dict, shard)) for shard in read_json(path)]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        told = f"{path} is not a plan of shards: remove it, and the next sweep makes another; what has rows is kept"
        raise UsageError(told) from error


def say(run: Path, shard: int, state: str) -> None:
    """Write the state of a shard. Called by the process that measures it."""
    said = State(state, platform.node(), os.getpid(), _job(), time.time())
    _write(_path(run, shard), asdict(said))


def state_of(run: Path, shard: int) -> State | None:
    """The last reported state of the shard; None if it has not begun.

    `at` is the time of the report or of the shard's last row, whichever is later.
    """
    path = _path(run, shard)
    try:
        said = State(**read_json(path))
    except (OSError, ValueError, TypeError):
        return None
    rows = (file.stat().st_mtime for file in (run / "rows").glob(f"*-{said.host}-{said.pid}.jsonl"))
    return replace(said, at=max(path.stat().st_mtime, *rows, 0.0))


def say_submitted(run: Path, shard: int, job: str) -> None:
    """Write the job of a shard. Called by the process that submits it.

    The job has a separate file, because the shard may report its state first.
    """
    _write(_job_path(run, shard), job)


def submitted(run: Path, shard: int) -> tuple[str, float] | None:
    """The last job of the shard and the time it was submitted; None if unknown."""
    path = _job_path(run, shard)
    try:
        return str(read_json(path)), path.stat().st_mtime
    except (OSError, ValueError):
        return None


def forget(run: Path, shard: int) -> None:
    """Remove the state and job of the shard, so that they are not taken for those of its next job."""
    for path in (_path(run, shard), _job_path(run, shard)):
        path.unlink(missing_ok=True)


def _path(run: Path, shard: int) -> Path:
    return run / "shards" / f"{shard:04d}.json"


def _job_path(run: Path, shard: int) -> Path:
    return run / "shards" / f"{shard:04d}.job"


def _job() -> str:
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def _write(path: Path, content: object) -> None:
    write_whole(path, json.dumps(content, ensure_ascii=False) + "\n")
