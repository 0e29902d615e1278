"""Choose the CPUs that a trial runs on, so that two trials can use the same ones in turn.

The CPUs of a shared machine differ in speed. A neighbour on the other half of a core slows the CPU down for seconds, by
two thirds on the machine where this was found. A process of one thread stays on its CPU. Of two such processes, one may
have the fast CPU throughout and the other one the slow CPU.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

_TASKS = Path("/proc/self/task")


def places(threads: int) -> list[set[int]]:
    """Sets of `threads` CPUs each, which together contain all CPUs that this process may run on.

    Empty if there is no choice: on systems other than Linux, or with at least as many threads as CPUs.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    cpus = sorted(os.sched_getaffinity(0))
    if threads >= len(cpus):
        return []
    starts = [*range(0, len(cpus) - threads, threads), len(cpus) - threads]
    return [set(cpus[start : start + threads]) for start in starts]


def mover(threads: int) -> Callable[[int], None]:
    """A function that moves all threads of this process to the CPU set of a number (see `places`).

    Numbers wrap around. Without a choice of CPUs the function does nothing.
    """
    known = places(threads)

    def move(number: int) -> None:
        if known:
            for task in _TASKS.iterdir():
                with contextlib.suppress(ProcessLookupError):  # the thread has just ended
                    os.sched_setaffinity(int(task.name), known[number % len(known)])

    return move
