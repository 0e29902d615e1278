"""A Slurm job and its state, from Slurm's accounting, or from the scheduler if there is no accounting."""

import functools
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import submitit

# Shortest time between two queries about the same thing, in seconds.
_ASK_EVERY_S = 20


class SlurmJob:
    """The job with this number: `12`, or `12_3` in an array. Its logs are in `folder`."""

    def __init__(self, job_id: str, folder: Path) -> None:
        self.job_id = job_id
        self._told: Any = submitit.SlurmJob(folder=folder, job_id=job_id)

    @property
    def state(self) -> str:
        """The state in Slurm's words, such as `RUNNING` or `CANCELLED by 0`; `UNKNOWN` if Slurm has no record."""
        moment = int(time.monotonic() / _ASK_EVERY_S)
        return self._told.state if _accounts_answer(moment) else _state_now(self.job_id, moment)

    def cancel(self, check: bool) -> None:
        """Cancel the job if it still exists. With `check`, raises CalledProcessError if `scancel` fails."""
        asked = _ask("scancel", self.job_id)
        if check:
            asked.check_returncode()


@functools.lru_cache(maxsize=1)
def _accounts_answer(moment: int) -> bool:
    """Whether `sacct` works. Tested first, because submitit and `sacct` both print a complaint at each failure."""
    return _ask("sacct", "--noheader", "--jobs=1").returncode == 0


@functools.lru_cache(maxsize=1024)
def _state_now(job_id: str, moment: int) -> str:
    """The state of the job from the scheduler, which forgets a job some minutes after its end."""
    found = re.search(r"\bJobState=(\w+)", _ask("scontrol", "--oneliner", "show", "job", job_id).stdout)
    return found[1] if found else "UNKNOWN"


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", "")
