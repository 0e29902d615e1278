"""The limit on a trial's memory: how it is set, and whether it is the reason for a failure."""

import contextlib
import ctypes
import os
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|cannot allocate memory|exceeds? the memory|alloc(ation)?_failed",
    re.I,
)
# How C++ and Python report that no thread could be started, for want of memory or of processes.
_NO_THREAD = re.compile(r"RuntimeError: (Resource temporarily unavailable|can't start new thread)")
# A thread's stack where its size is not limited; glibc's own default.
_STACK = 2 * 2**20
# Kept, as C code calls them.
_callbacks: list[Any] = []


def set_limit(limit: int) -> None:
    """Limit this process to `limit` bytes more than it holds now."""
    # RLIMIT_DATA counts private writable memory: what allocations cost, and not what CUDA merely reserves.
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    with contextlib.suppress(OSError):  # no /proc: no limit, as on macOS, where the kernel would ignore it
        most = _held() + limit
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception says that memory did not suffice, on the host or on a GPU."""
    # By its name: the supervisor imports this module without torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None


def lift() -> int | None:
    """Lift the limit, as reporting a result takes memory. Return what it was, in bytes of all data; None if not set."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    return None if soft == resource.RLIM_INFINITY else soft


def explain(outcome: dict[str, Any], limit: int | None, lifted: int | None) -> dict[str, Any]:
    """The outcome of a failure, whose reason names the memory limit of `limit` bytes where that is the cause.

    `lifted` is what `lift` returned. A thread that the memory limit does not explain is explained by the limit on
    processes.
    """
    if outcome["status"] == "error" and _NO_THREAD.match(outcome["reason"]):
        if lifted is None or not _leaves_no_thread(lifted):
            return {**outcome, "reason": f"{outcome['reason']}: {_processes()}"}
        outcome = {**outcome, "status": "oom"}
    if outcome["status"] != "oom" or limit is None or lifted is None:
        return outcome
    return {**outcome, "reason": f"it needs more than the memory limit of {_size(limit)}: {outcome['reason']}"}


def _leaves_no_thread(lifted: int) -> bool:
    """Whether the limit left too little memory for the stacks of two more threads.

    The memory of a thread that failed to start may be free again by now.
    """
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return _held() + 2 * (_STACK if stack == resource.RLIM_INFINITY else stack) > lifted


def tell_at_exit(limit: int | None, tell: Callable[[dict[str, Any]], None]) -> None:
    """Have C's exit() call `tell` with an outcome, where the limit is why a library ends the process.

    libgomp, OpenMP's library, does that where it cannot start a thread.
    """
    if limit is None or sys.platform != "linux":
        return
    process = os.getpid()

    def ending(status: int, _: object) -> None:
        if os.getpid() == process and (lifted := lift()) is not None and _leaves_no_thread(lifted):
            reason = f"a library ended the process with exit status {status}"
            tell(explain({"status": "oom", "reason": reason}, limit, lifted))

    _callbacks.append(ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ending))
    ctypes.CDLL(None).on_exit(_callbacks[-1], None)


def _held() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def _processes() -> str:
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limit = "is not set" if most == resource.RLIM_INFINITY else f"is {most}"
    return f"no thread could be started; `ulimit -u` {limit}"


def _size(limit: int) -> str:
    return f"{limit / 2**30:.4g} GiB" if limit >= 2**30 else f"{limit / 2**20:.4g} MiB"
