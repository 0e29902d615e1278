"""A tiny sweep as a user starts it, in a process of its own: its processes, told from others by a mark; its rows."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

TESTS = Path(__file__).resolve().parents[1]
IMPLS, LENGTHS, ROUNDS = ("attention.fused", "rnn.elman"), (8, 16), 3
GRID = [
    "--no-plots",
    f"impl={','.join(IMPLS)}",
    f"seq_len={','.join(map(str, LENGTHS))}",
    "d_model=8",
    "num_heads=2",
    "threads=1",
    "precision.trial_s=0.01",
    f"precision.min_rounds={ROUNDS}",
    f"precision.max_rounds={ROUNDS}",
    "precision.patience_s=0",
    "out=run",
]
CASES = len(IMPLS) * len(LENGTHS)
# A verification, the facts, and the rounds of every case.
ROWS = CASES * (2 + ROUNDS)
# What runs on the machine beside a test may be of the harness too: its own processes inherit a mark.
MARK = "HARNESS_TEST_MARK"
DEADLINE_S = 60.0
CHAIN = ("driver", "supervisor", "parent", "trial")


class Driver:
    """`python -m harness sweep` in the directory `cwd`, marked. A context manager: it is killed at the latest then.

    `within` is a command that runs another; `options` are `subprocess.Popen`'s.
    """

    def __init__(self, cwd: Path, *arguments: str, mark: str, within: Sequence[str] = (), **options: Any) -> None:
        self.cwd, self.mark = cwd, mark
        # Files without a name: they fill no disk that is full, and hold up nobody, as a pipe would that nobody reads.
        self._out, self._err = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115
        options = {"stdin": subprocess.DEVNULL, "stdout": self._out, "stderr": self._err, "cwd": cwd, **options}
        command = [*within, sys.executable, "-m", "harness", "sweep", *arguments]
        self.process = subprocess.Popen(command, **{"env": environment(mark), **options})

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._out.close()
        self._err.close()

    @property
    def out(self) -> str:
        """What it has said on stdout."""
        return _all_of(self._out)

    @property
    def err(self) -> str:
        """What it has said on stderr."""
        return _all_of(self._err)

    def ended(self, timeout_s: float = 2 * DEADLINE_S) -> int:
        """Its exit status, negative for a signal."""
        return self.process.wait(timeout_s)

    def runs(self) -> bool:
        return self.process.poll() is None

    def target(self, name: str) -> psutil.Process | None:
        """One of `CHAIN`, in which each process is the parent of the next; None if it does not exist now."""
        try:
            found = [psutil.Process(self.process.pid)] if self.runs() else []
            for _ in range(CHAIN.index(name)):
                found = [child for child in (found[0].children() if found else []) if _starts_trials(child)]
        except psutil.NoSuchProcess:
            return None
        return found[0] if found else None


def _starts_trials(process: psutil.Process) -> bool:
    """Whether this is a supervisor, a process that starts trials, or a trial: forks have one command line."""
    return "warm.serve" in " ".join(process.cmdline())


def _all_of(file: IO[str]) -> str:
    # Not by moving in the file: the process writes where its end is, which is one place for both.
    return os.pread(file.fileno(), 2**24, 0).decode()


def environment(mark: str) -> dict[str, str]:
    """That of the tests, without what would tell a child how wide its terminal is."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**inherited, "PYTHONPATH": f"{TESTS}:{TESTS.parent}", MARK: mark}


def sweep_to_its_end(cwd: Path, *arguments: str, mark: str, **options: Any) -> tuple[int, str]:
    """The exit status of a sweep that is left to itself, and what it says on stderr."""
    with Driver(cwd, *arguments, mark=mark, **options) as driver:
        return driver.ended(), driver.err


def lines_of(run: Path) -> list[str]:
    """The whole lines of the run's rows in the order of its writers; what is being written is not a line yet."""
    paths = sorted((run / "rows").glob("*.jsonl"))
    return [line for path in paths for line in path.read_text().split("\n")[:-1]]


def remaining(mark: str) -> list[psutil.Process]:
    """The processes with this mark but for this one; to be asked for again, as what is killed takes a moment."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _is_marked(process, mark)]


def nothing_remains(mark: str) -> bool:
    return becomes_true(lambda: not remaining(mark))


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


def becomes_true(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
    """Whether it does before the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
