"""A job of Slurm's: what has become of it, as its accounts tell, or, where nobody keeps them, Slurm itself."""

import functools
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import submitit

# Nobody is asked about the same thing more often.
_ASK_EVERY_S = 20


class SlurmJob:
    """The job of this number, `12`, or `12_3` of an array; its logs are in `folder`."""

    def __init__(self, job_id: str, folder: Path) -> None:
        self.job_id = job_id
        self._told: Any = submitit.SlurmJob(folder=folder, job_id=job_id)

    @property
    def state(self) -> str:
        """In Slurm's words, `RUNNING` or `CANCELLED by 0`; `UNKNOWN` where nobody knows, or not any more."""
        moment = int(time.monotonic() / _ASK_EVERY_S)
        return self._told.state if _accounts_answer(moment) else _state_now(self.job_id, moment)

    def cancel(self, check: bool) -> None:
        """Have it end, should it be there still. With `check`, raises CalledProcessError where Slurm will not."""
        asked = _ask("scancel", self.job_id)
        if check:
            asked.check_returncode()


@functools.lru_cache(maxsize=1)
def _accounts_answer(moment: int) -> bool:
    """Whether sacct does; submitit complains of each time that it does not, and sacct itself too."""
    return _ask("sacct", "--noheader", "--jobs=1").returncode == 0


@functools.lru_cache(maxsize=1024)
def _state_now(job_id: str, moment: int) -> str:
    """What Slurm itself knows of the job, which it forgets some minutes after its end."""
    found = re.search(r"\bJobState=(\w+)", _ask("scontrol", "--oneliner", "show", "job", job_id).stdout)
    return found[1] if found else "UNKNOWN"


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", "")
