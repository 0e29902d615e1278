"""What shards leave in a run's directory beside rows: which cases are whose, and how far each has come.

shards/plan.json   the cases of each shard    shards/0003.json   its state: where, since when, ended or not
shards/0003.job    under which number it was submitted last
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
# Jobs' scripts, pickles and logs, in the run's directory.
LOGS = "jobs"


@dataclass(frozen=True)
class State:
    """Of one shard: `running` or `ended`, on which host, in which process and job, and when that was last said."""

    state: str
    host: str
    pid: int
    job: str
    at: float


def write_plan(run: Path, shards: Sequence[Sequence[Case]]) -> None:
    """Say which cases each shard has."""
    (run / "shards").mkdir(exist_ok=True)
    _write(run / "shards" / "plan.json", [[case.as_dict() for case in shard] for shard in shards])


def read_plan(run: Path) -> list[tuple[Case, ...]] | None:
    """The cases of each shard; None of a run that was not made in shards. Raises UsageError for a damaged plan."""
    path = run / "shards" / "plan.json"
    try:
        return [tuple(map(Case.from_dict, shard)) for shard in read_json(path)]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        told = f"{path} is not a plan of shards: remove it, and the next sweep makes another; what has rows is kept"
        raise UsageError(told) from error


def say(run: Path, shard: int, state: str) -> None:
    """The state of a shard, as the process that measures it says."""
    said = State(state, platform.node(), os.getpid(), _job(), time.time())
    _write(_path(run, shard), asdict(said))


def state_of(run: Path, shard: int) -> State | None:
    """What was last said of the shard; None where it has not begun. A row counts as a word of it."""
    path = _path(run, shard)
    try:
        said = State(**read_json(path))
    except (OSError, ValueError, TypeError):
        return None
    rows = (file.stat().st_mtime for file in (run / "rows").glob(f"*-{said.host}-{said.pid}.jsonl"))
    return replace(said, at=max(path.stat().st_mtime, *rows, 0.0))


def say_submitted(run: Path, shard: int, job: str) -> None:
    """Which job has the shard, as the process that submits it says: in a file of its own, as the job may be quicker."""
    _write(_job_path(run, shard), job)


def submitted(run: Path, shard: int) -> tuple[str, float] | None:
    """The job that the shard was given to last, and when; None where that is not known."""
    path = _job_path(run, shard)
    try:
        return str(read_json(path)), path.stat().st_mtime
    except (OSError, ValueError):
        return None


def forget(run: Path, shard: int) -> None:
    """What was said before is not of the job that comes."""
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
