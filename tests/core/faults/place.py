"""The directories in which a small sweep is disturbed, with their content before the sweep."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from core.faults.disks import give_shared_memory, obey_permissions
from core.faults.driver import Driver, becomes_true, environment, remaining

GOOD, ROUNDS = ("attention.fused", "rnn.elman"), 2
# A good layer writes a row for its verification, one for its facts, and one for each round.
_ROWS = len(GOOD) * (2 + ROUNDS)
# Before its first row, a sweep needs seconds to start. A row takes less.
_LONG_S, _SHORT_S = 2.0, 0.15
LITTLE_MEMORY, ENOUGH_MEMORY = "16MiB", "256MiB"
_SETTINGS = (
    "--no-plots",
    "seq_len=8",
    "d_model=8",
    "num_heads=2",
    "threads=1",
    "precision.trial_s=0.01",
    "precision.timeout_s=3",
    f"precision.min_rounds={ROUNDS}",
    f"precision.max_rounds={ROUNDS}",
    "precision.patience_s=0",
    "retry=killed,error,timeout",
    "out=run",
)


class Place:
    """Directories below `here` for a sweep of the good layers and the hostile `layers`. `draw` makes random choices.

    `undo` collects functions that undo the faults of one sweep, the last fault first.
    """

    def __init__(self, here: Path, draw: random.Random, layers: Sequence[str], memory_limit: str) -> None:
        self.here, self.draw, self.layers, self.memory_limit = here, draw, layers, memory_limit
        self.mark = str(here)
        self.cwd, self.shm = here / "cwd", here / "shm"
        self.tmp = Path(tempfile.mkdtemp())  # a short path: layers make sockets below
        self.ballast = self.cwd / "ballast"
        self.run = self.cwd / "run"
        self.undo: list[Callable[[], None]] = []
        self.damaged = False  # whether a fault has ever changed rows
        self.removed = False  # whether the run was removed since the last sweep began
        self.moved: Path | None = None  # where the run is now, if it was renamed
        self.wrong: list[str] = []  # violations found while undoing a fault
        self.before: dict[Path, bytes] = {}  # rows by file at the start of the last sweep
        for directory in (self.cwd, self.shm):
            directory.mkdir(parents=True)

    @property
    def memory_limited(self) -> bool:
        """Whether any layer may run out of memory."""
        return self.memory_limit == LITTLE_MEMORY

    @property
    def impls(self) -> tuple[str, ...]:
        return (*GOOD, *(f"core.faults.layers:{name}" for name in self.layers))

    def sweep(self) -> Driver:
        """Start the sweep, or continue it."""
        self.removed = False
        self.before = self.rows()
        settings = [f"impl={','.join(self.impls)}", f"memory_limit={self.memory_limit}", *_SETTINGS]
        env = environment(self.mark) | {"TMPDIR": str(self.tmp)}
        return Driver(self.cwd, *settings, mark=self.mark, env=env, preexec_fn=self._prepare)

    def _prepare(self) -> None:
        give_shared_memory(os.fsencode(self.shm))
        obey_permissions()

    def rows(self) -> dict[Path, bytes]:
        """The content of each file of rows. Directories and pipes with such a name are left out."""
        return {path: path.read_bytes() for path in (self.run / "rows").glob("*.jsonl") if path.is_file()}

    def rewind(self) -> None:
        """Go back to the rows of a random earlier moment, so that a sweep has something left to measure."""
        rows = sorted(self.rows().items())
        left = self.draw.randrange(1 + sum(held.count(b"\n") for _, held in rows) // 2)
        for path, held in rows:
            kept = held.splitlines(keepends=True)[:left]
            left -= len(kept)
            path.unlink()
            if kept:
                path.write_bytes(b"".join(kept))

    def wait_for_a_moment(self, driver: Driver) -> None:
        """Wait for a random number of new rows and then a random time, or until the sweep has ended."""
        enough = self._new_rows() + self.draw.randrange(_ROWS // 2)
        long = enough == 0
        becomes_true(lambda: not driver.runs() or self._new_rows() >= enough)
        time.sleep(self.draw.uniform(0, _LONG_S if long else _SHORT_S))

    def _new_rows(self) -> int:
        """The number of rows that this sweep has written."""
        with suppress(FileNotFoundError):  # `run` may have been renamed or removed
            return sum(rows.count(b"\n") for path, rows in self.rows().items() if path not in self.before)
        return 0

    def left_behind(self) -> list[str]:
        """Files outside `out` that did not exist before the sweep."""
        of_ours = {self.run.name, self.ballast.name, self.moved.name if self.moved else ""}
        places = ((self.cwd, of_ours), (self.tmp, set[str]()), (self.shm, set[str]()))
        return [str(place / name) for place, known in places for name in _names(place) if name not in known]

    def take_back(self) -> None:
        """Undo the faults, as a user would before continuing the sweep."""
        while self.undo:
            undo = self.undo.pop()
            try:
                undo()
            except FileNotFoundError:
                if not self.removed:  # another fault has removed the run, and with it what was damaged
                    raise

    def kill_what_remains(self) -> None:
        for process in remaining(self.mark):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


@dataclass(frozen=True)
class Fault:
    """One fault. `tries` describes it, and `ends` are the exit statuses that it allows the sweep.

    `deal` applies the fault and returns whether it had an effect. With `meanwhile`, it is applied to a running sweep,
    otherwise before the start.
    """

    name: str
    kind: str
    tries: str
    ends: tuple[int, ...]
    deal: Callable[[Place, Driver | None], bool]
    meanwhile: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether every sweep must be refused while the fault persists."""
        return not self.meanwhile and self.ends == (2,)
