"""Isolate a freshly forked trial: it can harm nobody, and outlives nobody."""

import contextlib
import ctypes
import os
import signal
import sys
import tempfile
from pathlib import Path

from harness.trial.memory_limit import set_limit

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# The process that trials are forked from, as it is known in them.
_adopter: int | None = None


def enter(memory_limit: int | None, temporary: str | None = None) -> None:
    """Own session (so that its whole process group can be killed), no terminal, limited memory.

    `memory_limit` is in bytes, on top of what the warm parent's fork brought along. `temporary` is the directory for
    temporary files; None leaves the system's.
    """
    os.setsid()
    die_with_parent()
    if _adopter is not None and os.getppid() != _adopter:  # it ended before that: nobody wants this trial any more
        os._exit(0)
    _silence()
    if temporary is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = temporary
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the warm parent ignores it; a trial need not
    if memory_limit is not None:
        set_limit(memory_limit)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this signal when the process's parent ends, however that ends. On Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends: none can slip away. On Linux only.

    To be called once in the process that trials are forked from.
    """
    global _adopter
    _adopter = os.getpid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_children() -> None:
    """Kill and reap every child of this process, and theirs, which become ours as they are orphaned."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists() and (pids := children.read_text().split()):
        for pid in map(int, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in map(int, pids):  # the kernel frees their memory at the same time
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _silence() -> None:
    """A layer may print what it likes; the sweep's screen is not the place, nor may it wait for input."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
