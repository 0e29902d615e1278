"""Start a tiny sweep in a separate process, as a user does. Find its processes by a mark, and read its rows."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

TESTS = Path(__file__).resolve().parents[2]
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
# Every case has a verification, its facts and its rounds.
ROWS = CASES * (2 + ROUNDS)
# Environment variable that marks the processes of a test. Other processes on the machine may belong to the harness too.
MARK = "HARNESS_TEST_MARK"
DEADLINE_S = 60.0
CHAIN = ("driver", "supervisor", "parent", "trial")


class Driver:
    """`python -m harness sweep` in the directory `cwd`, with a mark. A context manager: it kills the sweep at its end.

    `within` is a command that runs another command. `options` are passed to `subprocess.Popen`.
    """

    def __init__(self, cwd: Path, *arguments: str, mark: str, within: Sequence[str] = (), **options: Any) -> None:
        self.cwd, self.mark = cwd, mark
        # Files without a name: they are on no disk that a test fills. A pipe that is not read could block the sweep.
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
        """Its output on stdout so far."""
        return _all_of(self._out)

    @property
    def err(self) -> str:
        """Its output on stderr so far."""
        return _all_of(self._err)

    def ended(self, timeout_s: float = 2 * DEADLINE_S) -> int:
        """Wait for its end and return the exit status, negative for a signal."""
        return self.process.wait(timeout_s)

    def runs(self) -> bool:
        return self.process.poll() is None

    def target(self, name: str) -> psutil.Process | None:
        """A process of `CHAIN`, in which each one is the parent of the next; None if it does not exist now."""
        try:
            found = [psutil.Process(self.process.pid)] if self.runs() else []
            for _ in range(CHAIN.index(name)):
                found = [child for child in (found[0].children() if found else []) if _starts_trials(child)]
        except psutil.NoSuchProcess:
            return None
        return found[0] if found else None

    def children(self, name: str) -> list[psutil.Process]:
        """The children of a process of `CHAIN`, none if it does not exist now."""
        process = self.target(name)
        try:
            return process.children() if process else []
        except psutil.NoSuchProcess:
            return []


def _starts_trials(process: psutil.Process) -> bool:
    """Whether this is a supervisor, a fork server or a trial. All of them have the same command line."""
    return "fork_server.serve" in " ".join(process.cmdline())


def _all_of(file: IO[str]) -> str:
    # `pread` does not move the file offset, which this process shares with the writing one.
    return os.pread(file.fileno(), 2**24, 0).decode()


def environment(mark: str) -> dict[str, str]:
    """The environment of the tests with the mark, without the variables that set the terminal's size."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**inherited, "PYTHONPATH": f"{TESTS}:{TESTS.parent}", MARK: mark}


def sweep_to_its_end(cwd: Path, *arguments: str, mark: str, **options: Any) -> tuple[int, str]:
    """Run a sweep undisturbed. Returns its exit status and its stderr."""
    with Driver(cwd, *arguments, mark=mark, **options) as driver:
        return driver.ended(), driver.err


def lines_of(run: Path) -> list[str]:
    """The complete lines of the run's rows, in the order of its writers. An unfinished last line is left out."""
    paths = sorted((run / "rows").glob("*.jsonl"))
    return [line for path in paths for line in path.read_text().split("\n")[:-1]]


def remaining(mark: str) -> list[psutil.Process]:
    """The other processes with this mark. A killed process takes a moment to go, so callers may have to repeat this."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _is_marked(process, mark)]


def nothing_remains(mark: str) -> bool:
    return becomes_true(lambda: not remaining(mark))


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


def becomes_true(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
    """Whether the condition becomes true before the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
