"""Isolate a newly forked trial: it cannot harm other processes, and ends with its parent."""

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
# The number of the process that trials are forked from. Each trial inherits the value.
_adopter: int | None = None


def enter(memory_limit: int | None, temporary: str | None = None) -> None:
    """Give this process its own session, no terminal and limited memory.

    With its own session, its whole process group can be killed. `memory_limit` is in bytes, in addition to the memory
    inherited from the fork server. `temporary` is the directory for temporary files; None keeps the system's directory.
    """
    os.setsid()
    die_with_parent()
    # The parent may have ended before the line above: then no process waits for this trial.
    if _adopter is not None and os.getppid() != _adopter:
        os._exit(0)
    _silence()
    if temporary is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = temporary
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the fork server ignores it; a trial need not
    if memory_limit is not None:
        set_limit(memory_limit)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send the signal `number` to this process when its parent ends for any reason. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none can escape. Linux only.

    Call this once in the process that trials are forked from.
    """
    global _adopter
    _adopter = os.getpid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_children() -> None:
    """Kill and reap every descendant of this process. Orphaned ones become its children (`adopt_orphans`)."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists() and (pids := children.read_text().split()):
        for pid in map(int, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in map(int, pids):  # the kernel frees their memory at the same time
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _silence() -> None:
    """Connect standard input and output to /dev/null: a layer may neither print to the sweep's screen nor read."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
