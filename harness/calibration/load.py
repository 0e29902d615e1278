"""What else ran during the measurement: time stolen by the host, other processes, and swapping."""

import os
import resource
import time
from dataclasses import dataclass

import psutil

# At most this many processes are named, and only those that took at least this share of one core.
_MOST_NAMED = 3
_LEAST_NAMED = 0.02


@dataclass(frozen=True)
class Snapshot:
    """Counters of CPU time in seconds, and of swapped bytes, since boot.

    The machine's are `busy_s`, `total_s` and `steal_s`; the last is None if the kernel does not report it. Those of
    this process and its ended children are in `own_s`. The map `others` holds the name and CPU time of every other
    process, by (id, time of creation). The CPU time includes that of its ended children: what a shell starts ends soon,
    and only the shell remains to be named.
    """

    at_s: float
    total_s: float
    busy_s: float
    steal_s: float | None
    own_s: float
    swapped_bytes: int
    others: dict[tuple[int, float], tuple[str, float]]


@dataclass(frozen=True)
class Busy:
    """Another process that used the CPU, with its children. `cores` is 0.5 for half a core's time."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True)
class Load:
    """Shares of the time of all CPUs. `steal_share` is None if the kernel does not report it."""

    steal_share: float | None
    other_share: float
    swapped_bytes: int
    busiest: tuple[Busy, ...]


def snapshot() -> Snapshot:
    """The counters now. Take one before the first child process starts, and one after the last has ended."""
    times = psutil.cpu_times()
    swap = psutil.swap_memory()
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    steal_s = getattr(times, "steal", None)
    busy_s = times.user + times.system + sum(getattr(times, name, 0.0) for name in ("nice", "irq", "softirq"))
    own = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Snapshot(
        at_s=time.monotonic(),
        total_s=busy_s + idle_s + (steal_s or 0.0),
        busy_s=busy_s,
        steal_s=steal_s,
        own_s=sum(usage.ru_utime + usage.ru_stime for usage in own),
        swapped_bytes=swap.sin + swap.sout,
        others=_others(),
    )


def _others() -> dict[tuple[int, float], tuple[str, float]]:
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    found = {}
    for process in psutil.process_iter(["pid", "name", "create_time", "cpu_times"]):
        info = process.info
        if info["pid"] not in ours and info["cpu_times"] is not None:
            times = info["cpu_times"]
            cpu_s = times.user + times.system + times.children_user + times.children_system
            found[info["pid"], info["create_time"]] = (info["name"] or "?", cpu_s)
    return found


def load_between(before: Snapshot, after: Snapshot) -> Load:
    """The load from `before` to `after`. A process that ended in between counts under its parent's name."""
    total_s = max(after.total_s - before.total_s, 1e-9)
    wall_s = max(after.at_s - before.at_s, 1e-9)
    steal = None
    if before.steal_s is not None and after.steal_s is not None:
        steal = max(0.0, after.steal_s - before.steal_s) / total_s
    other_s = max(0.0, after.busy_s - before.busy_s - (after.own_s - before.own_s))
    # A child that ends adds its whole CPU time to its parent's, including time before `before`. Hence the cap of
    # `other_s`.
    busy = [
        Busy(pid, name, min(other_s, cpu_s - before.others.get((pid, created), (name, 0.0))[1]) / wall_s)
        for (pid, created), (name, cpu_s) in after.others.items()
    ]
    busy.sort(key=lambda process: -process.cores)
    named = tuple(process for process in busy if process.cores >= _LEAST_NAMED)[:_MOST_NAMED]
    return Load(steal, other_s / total_s, max(0, after.swapped_bytes - before.swapped_bytes), named)
