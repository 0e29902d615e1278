"""Isolate trials: limit their memory, end them with their parents, and remove what they leave behind.

Whatever a layer does, its trial cannot harm other processes, and the driver receives what the trial sends. A small
process, the supervisor, runs between the driver and the fork server. No process below it outlives it.
"""

import ctypes
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from json import dumps  # bound before a layer may replace it
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_DATA, RLIMIT_STACK, getrlimit, setrlimit
from sys import platform
from typing import Any

from harness.core.model import file_io, formatting

# What the driver asks of a trial, and what the trial answers. Both are JSON.
Request = dict[str, Any]
Answer = dict[str, Any]
_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|cannot allocate memory|exceeds? the memory|alloc(ation)?_failed",
    re.I,
)
# The size of a thread's stack if it is not limited: glibc's own default.
_STACK = 2 * 2**20
# Kept alive because C code calls them.
_callbacks: list[Any] = []


def set_limit(limit: int) -> None:
    """Limit this process to `limit` bytes more than it holds now."""
    # RLIMIT_DATA counts private writable memory: real allocations, not the addresses that CUDA merely reserves.
    hard = getrlimit(RLIMIT_DATA)[1]
    with suppress(OSError):  # no limit without /proc, as on macOS, whose kernel would ignore the limit
        most = status_bytes("VmData") + limit
        setrlimit(RLIMIT_DATA, (most if hard == RLIM_INFINITY else min(most, hard), hard))


def one_line(error: Exception) -> str:
    """The first 200 characters of its message, on one line."""
    return " ".join(str(error).split())[:200]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception reports a lack of memory, on the host or on a GPU."""
    # Compare by name, because the supervisor imports this module without torch.
    is_named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_named or (isinstance(error, RuntimeError) and bool(_OUT_OF_MEMORY.search(str(error))))


def lift_limit() -> int | None:
    """Lift the limit, because reporting a result takes memory.

    Return the former limit, in bytes of all data, or None if none was set.
    """
    soft, hard = getrlimit(RLIMIT_DATA)
    setrlimit(RLIMIT_DATA, (hard, hard))
    return None if soft == RLIM_INFINITY else soft


def explain_failure(outcome: Answer, limit: int | None, lifted: int | None) -> Answer:
    """Add the memory limit of `limit` bytes to the reason of a failed `outcome`, if the limit is the cause.

    `lifted` is the result of `lift_limit`. If a thread could not be started and the memory limit does not explain it,
    the reason names the command that tells the limit on processes.
    """
    # How C++ and Python report that no thread could be started, because memory or processes ran out.
    no_thread = r"RuntimeError: (Resource temporarily unavailable|can't start new thread)"
    if outcome["status"] == "error" and re.match(no_thread, outcome["reason"]):
        if lifted is None or not _leaves_no_thread(lifted):
            return {**outcome, "reason": f"{outcome['reason']}: no thread could be started: see `ulimit -u`"}
        outcome = {**outcome, "status": "oom"}
    if outcome["status"] != "oom" or limit is None or lifted is None:
        return outcome
    memory = formatting.round_text(formatting.size(limit))
    return {**outcome, "reason": f"it needs more than the memory limit of {memory}: {outcome['reason']}"}


def _leaves_no_thread(lifted: int) -> bool:
    """Whether the limit left too little memory for the stacks of two more threads.

    The memory of a thread that failed to start may be free again by now.
    """
    stack = getrlimit(RLIMIT_STACK)[0]
    return status_bytes("VmData") + 2 * (_STACK if stack == RLIM_INFINITY else stack) > lifted


def tell_at_exit(limit: int | None, tell: Callable[[Answer], None]) -> None:
    """Have C's exit() call `tell` with an outcome if a library ends the process because of the limit.

    libgomp, OpenMP's library, ends the process if it cannot start a thread. Linux only.
    """
    if limit is None or platform != "linux":
        return
    process = os.getpid()

    def ending(status: int, _: object) -> None:
        if os.getpid() == process and (lifted := lift_limit()) is not None and _leaves_no_thread(lifted):
            reason = f"a library ended the process with exit status {status}"
            tell(explain_failure({"status": "oom", "reason": reason}, limit, lifted))

    _callbacks.append(ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ending))
    ctypes.CDLL(None).on_exit(_callbacks[-1], None)


def status_bytes(field: str) -> int:
    """The number of bytes in a field of /proc/self/status, see proc(5). Raises OSError, or LookupError without it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status has no {field}")


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
    if _fork_server_pid not in (None, os.getppid()):
        os._exit(0)
    # A layer may neither print to the sweep's screen nor read.
    connect_to_null(0, 1, 2)
    if temporary is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = temporary
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the fork server ignores it; a trial need not
    if memory_limit is not None:
        set_limit(memory_limit)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send the signal `number` to this process when its parent ends for any reason. Linux only."""
    if platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none can escape. Linux only.

    Call this once in the process that trials are forked from.
    """
    global _fork_server_pid
    _fork_server_pid = os.getpid()
    if platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_children() -> None:
    """Kill and reap every descendant of this process. Orphaned ones become its children (`adopt_orphans`)."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists() and (pids := children.read_text().split()):
        for pid in map(int, pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in map(int, pids):  # the kernel frees their memory at the same time
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def connect_to_null(*descriptors: int) -> None:
    """Connect the file descriptors to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


def send(pipe: int, answer: Answer) -> None:
    """Write the answer as one line of JSON."""
    left = memoryview(f"{dumps(answer)}\n".encode())
    while left:
        left = left[os.write(pipe, left) :]


# The line that a trial sends when it begins to compile.
NOTICE = b"compiling\n"
# The prefix of the reason why the system could not start the fork server or a trial.
REFUSED = "refused "
_AWAITED = (signal.SIGTERM, signal.SIGCONT, signal.SIGCHLD)


def supervise(descriptor: int, directory: Path) -> None:
    """Fork the fork server and return in it. On systems other than Linux, this process becomes the fork server.

    The supervisor ends when the driver or the fork server ends, and at SIGTERM. First it kills every process below it,
    wherever a layer has moved that process, and removes what the trials left behind.

    A stopped process obeys only SIGKILL and SIGCONT. SIGKILL would leave the supervisor no time to clean up. So the
    kernel sends it SIGCONT when the driver ends, and SIGKILL to the fork server when the supervisor ends.

    `descriptor` is the socket to the driver. `directory` contains the trials' temporary directories.
    """
    if platform != "linux":
        return
    driver, supervisor = os.getppid(), os.getpid()
    adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    die_with_parent(signal.SIGCONT)
    try:
        server = os.fork()
    except OSError as error:
        os.write(descriptor, f"{REFUSED}{error.strerror}\n".encode())
        os._exit(1)
    if server == 0:
        os.setsid()  # a signal to the fork server's process group does not reach the supervisor
        die_with_parent()
        if os.getppid() != supervisor:
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        return
    try:
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.getppid() == driver and os.waitid(os.P_PID, server, ended) is None:
            if signal.sigwaitinfo(_AWAITED).si_signo == signal.SIGTERM:
                break
    finally:
        kill_children()
        file_io.remove_scratch(directory)
        os._exit(0)


@contextmanager
def time_limit(most_s: float, failure: Exception) -> Iterator[None]:
    """Raise `failure` in the body after `most_s`, when an operation ends. Call this in the main thread."""

    def end(number: int, frame: object) -> None:
        raise failure

    handler = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, most_s, most_s)  # again, if somebody ignores the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
