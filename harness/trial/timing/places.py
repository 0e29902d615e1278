"""Which CPUs a trial may run on, where two trials are to meet the same ones.

The CPUs of a shared machine are not alike: what a neighbour runs on the other half of a core slows that one down, by
two thirds on the machine where this was found, for seconds. A process of one thread stays where it is, so that of two
such processes one may have the fast CPU throughout and the other the slow one.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

_TASKS = Path("/proc/self/task")


def places(threads: int) -> list[set[int]]:
    """Sets of as many CPUs as there are threads, which together are all that this process may run on.

    None where there is nothing to choose: as many threads as CPUs, or no Linux.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    cpus = sorted(os.sched_getaffinity(0))
    if threads >= len(cpus):
        return []
    starts = [*range(0, len(cpus) - threads, threads), len(cpus) - threads]
    return [set(cpus[start : start + threads]) for start in starts]


def mover(threads: int) -> Callable[[int], None]:
    """What moves this process, all its threads, to the place of a number; it does nothing where there is no choice."""
    known = places(threads)

    def move(number: int) -> None:
        if known:
            for task in _TASKS.iterdir():
                with contextlib.suppress(ProcessLookupError):  # a thread that has just ended
                    os.sched_setaffinity(int(task.name), known[number % len(known)])

    return move
