"""Isolate a newly forked trial: limit its memory, end it with its parent, and remove the shared memory that it leaves.

Whatever a layer does, its trial cannot harm other processes.
"""

import contextlib
import ctypes
import glob
import mmap
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|cannot allocate memory|exceeds? the memory|alloc(ation)?_failed",
    re.I,
)
# How C++ and Python report that no thread could be started, because memory or processes ran out.
_NO_THREAD = re.compile(r"RuntimeError: (Resource temporarily unavailable|can't start new thread)")
# The size of a thread's stack if it is not limited: glibc's own default.
_STACK = 2 * 2**20
# Kept alive because C code calls them.
_callbacks: list[Any] = []


def set_limit(limit: int) -> None:
    """Limit this process to `limit` bytes more than it holds now."""
    # RLIMIT_DATA counts private writable memory: real allocations, not the addresses that CUDA merely reserves.
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    with contextlib.suppress(OSError):  # no limit without /proc, as on macOS, whose kernel would ignore the limit
        most = _held_bytes() + limit
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception reports a lack of memory, on the host or on a GPU."""
    # Compare by name, because the supervisor imports this module without torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None


def lift_limit() -> int | None:
    """Lift the limit, because reporting a result takes memory.

    Return the former limit, in bytes of all data, or None if none was set.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    return None if soft == resource.RLIM_INFINITY else soft


def explain_failure(outcome: dict[str, Any], limit: int | None, lifted: int | None) -> dict[str, Any]:
    """Add the memory limit of `limit` bytes to the reason of a failed `outcome`, if the limit is the cause.

    `lifted` is the result of `lift_limit`. If a thread could not be started and the memory limit does not explain it,
    the reason names the limit on processes.
    """
    if outcome["status"] == "error" and _NO_THREAD.match(outcome["reason"]):
        if lifted is None or not _leaves_no_thread(lifted):
            return {**outcome, "reason": f"{outcome['reason']}: {_processes_text()}"}
        outcome = {**outcome, "status": "oom"}
    if outcome["status"] != "oom" or limit is None or lifted is None:
        return outcome
    return {**outcome, "reason": f"it needs more than the memory limit of {_size_text(limit)}: {outcome['reason']}"}


def _leaves_no_thread(lifted: int) -> bool:
    """Whether the limit left too little memory for the stacks of two more threads.

    The memory of a thread that failed to start may be free again by now.
    """
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return _held_bytes() + 2 * (_STACK if stack == resource.RLIM_INFINITY else stack) > lifted


def tell_at_exit(limit: int | None, tell: Callable[[dict[str, Any]], None]) -> None:
    """Have C's exit() call `tell` with an outcome if a library ends the process because of the limit.

    libgomp, OpenMP's library, ends the process if it cannot start a thread. Linux only.
    """
    if limit is None or sys.platform != "linux":
        return
    process = os.getpid()

    def ending(status: int, _: object) -> None:
        if os.getpid() == process and (lifted := lift_limit()) is not None and _leaves_no_thread(lifted):
            reason = f"a library ended the process with exit status {status}"
            tell(explain_failure({"status": "oom", "reason": reason}, limit, lifted))

    _callbacks.append(ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ending))
    ctypes.CDLL(None).on_exit(_callbacks[-1], None)


def _held_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def _processes_text() -> str:
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limit = "is not set" if most == resource.RLIM_INFINITY else f"is {most}"
    return f"no thread could be started; `ulimit -u` {limit}"


def _size_text(limit: int) -> str:
    return f"{limit / 2**30:.4g} GiB" if limit >= 2**30 else f"{limit / 2**20:.4g} MiB"


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# The number of the process that trials are forked from. Each trial inherits the value.
_fork_server_pid: int | None = None


def enter_sandbox(memory_limit: int | None, temporary: str | None = None) -> None:
    """Give this process its own session, no terminal and limited memory.

    With its own session, its whole process group can be killed. `memory_limit` is in bytes, in addition to the memory
    inherited from the fork server. `temporary` is the directory for temporary files; None keeps the system's directory.
    """
    os.setsid()
    die_with_parent()
    # The parent may have ended before the line above: then no process waits for this trial.
    if _fork_server_pid is not None and os.getppid() != _fork_server_pid:
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
    global _fork_server_pid
    _fork_server_pid = os.getpid()
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


# The kernel sets file times to its last tick, which is a few milliseconds ago.
_ROUNDING_S = 0.1
_DIRECTORY = Path("/dev/shm")
# File name patterns, separated by zero bytes, in anonymous memory shared with every process forked from this one.
# Neither a full disk nor a closed descriptor keeps a trial from noting a name, and the memory cannot grow.
_noted = mmap.mmap(-1, 2**16)
# When this process began, in seconds since the epoch. Older files belong to other programs.
_BEGAN = time.time() - _ROUNDING_S


def note_trial(pid: int) -> None:
    """Note the names that torch gives to shared memory in the process `pid`."""
    _note(f"torch_{pid}_*")


def note_names() -> None:
    """Note each name that `multiprocessing.shared_memory` creates from now on, in this process or a fork of it."""
    try:
        import _posixshmem  # type: ignore[import-not-found]
    except ImportError:  # this Python was built without the module
        return
    shm_open = _posixshmem.shm_open

    def noting(path: str, flags: int, *mode: Any, **more: Any) -> int:
        descriptor: int = shm_open(path, flags, *mode, **more)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            _note(glob.escape(path.lstrip("/")))
        return descriptor

    _posixshmem.shm_open = noting


def note_used(began: float) -> None:
    """Note the names of shared memory that was created since `began`, in seconds, and that this process uses."""
    own = os.getuid()
    try:
        with os.scandir(_DIRECTORY) as entries:
            new = [entry.path for entry in entries if _is_since(entry, began - _ROUNDING_S, own)]
    except OSError:  # this system has no such directory
        return
    if not new:
        return
    used = {line.split(maxsplit=5)[5] for line in _lines("/proc/self/maps") if line.count("/")}
    used.update(_links("/proc/self/fd"))
    for path in used.intersection(new):
        _note(glob.escape(os.path.basename(path)))


def unlink_noted() -> None:
    """Unlink the POSIX shared memory of the noted names that still exists, and clear the notes.

    Other programs of the same user create shared memory at the same time, and may attach to it later by its name.
    Therefore only names known to come from the trial are unlinked. Python's `multiprocessing.shared_memory` creates
    some, in the trial or in its forked children (`note_names`). Torch creates others, which contain the number of the
    trial's process (`note_trial`). Further ones, created by C code, are new files that the trial still maps or holds
    open before its answer (`note_used`).
    """
    patterns = os.fsdecode(_noted[:].rstrip(b"\0")).split("\0")
    for pattern in filter(None, patterns):
        for left in _DIRECTORY.glob(pattern):
            with contextlib.suppress(OSError):
                if left.stat().st_mtime >= _BEGAN:  # containers may share this directory but not process numbers
                    left.unlink()
    _noted[:] = bytes(len(_noted))  # last: the supervisor may kill the fork server here, and then does the same


def _is_since(entry: os.DirEntry[str], began: float, owner: int) -> bool:
    """Whether a file of `owner` was written or created since `began`."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # another program removed it
        return False
    return status.st_uid == owner and status.st_ctime >= began


def _lines(path: str) -> list[str]:
    return Path(path).read_text(errors="surrogateescape").splitlines()


def _links(directory: str) -> list[str]:
    """Where the links in the directory point to."""
    found = []
    for name in os.listdir(directory):
        with contextlib.suppress(OSError):  # the descriptor that lists the directory is closed by now
            found.append(os.readlink(os.path.join(directory, name)))
    return found


def _note(pattern: str) -> None:
    end = len(_noted[:].rstrip(b"\0"))
    entry = b"\0" * (end > 0) + os.fsencode(pattern)
    if end + len(entry) <= len(_noted):
        _noted[end : end + len(entry)] = entry
