"""The memory limit of a trial: set it, lift it, and tell whether it caused a failure."""

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
        most = _held() + limit
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception reports a lack of memory, on the host or on a GPU."""
    # Compare by name, because the supervisor imports this module without torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None


def lift() -> int | None:
    """Lift the limit, because reporting a result takes memory.

    Return the former limit, in bytes of all data, or None if none was set.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    return None if soft == resource.RLIM_INFINITY else soft


def explain(outcome: dict[str, Any], limit: int | None, lifted: int | None) -> dict[str, Any]:
    """Add the memory limit of `limit` bytes to the reason of a failed `outcome`, if the limit is the cause.

    `lifted` is the result of `lift`. If a thread could not be started and the memory limit does not explain it, the
    reason names the limit on processes.
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
    """Have C's exit() call `tell` with an outcome if a library ends the process because of the limit.

    libgomp, OpenMP's library, ends the process if it cannot start a thread. Linux only.
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
