"""Control and record what surrounds the samples of a trial: its heap, its CPUs, the machine's speed, and interference.

All of these differ by chance between trials of the same layer, and so do the layer's times.
"""

import contextlib
import ctypes
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time

import numpy as np
import torch
from torch import Tensor

from harness.core.model.sweep_axes import MAPPED_FROM_BYTES

from .workload import Call, Unsupported

# Parameter numbers of `mallopt` in malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
# glibc's own initial threshold and number of mapped blocks. A threshold set explicitly no longer changes.
_FRESH_BYTES = MAPPED_FROM_BYTES["fresh"]
_FRESH_BLOCKS = 65536

# A heap that keeps its memory has reached its size after `_SETTLED_CALLS` calls in a row with at most `_SETTLED_FAULTS`
# page faults each. `_MOST_CALLS` bounds the calls.
_SETTLED_CALLS = 6
_SETTLED_FAULTS = 16
_MOST_CALLS = 40

# `mallopt` parameters and values, in order.
_SETTINGS = {
    "default": (),
    # No block is mapped separately and none is returned. Memory stays once touched, and causes no further faults.
    "steady": ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)),
    # Every large block is mapped separately and returned when freed, so it causes faults at every call.
    "fresh": ((_M_MMAP_MAX, _FRESH_BLOCKS), (_M_MMAP_THRESHOLD, _FRESH_BYTES), (_M_TRIM_THRESHOLD, _FRESH_BYTES)),
}


def set_allocator(name: str) -> None:
    """Configure the allocator of this process as `default`, `steady` or `fresh`.

    Large blocks cause page faults never (`steady`) or at every call (`fresh`). By default, glibc returns a freed block
    to the kernel if its size exceeds a threshold, which depends on earlier blocks. So a layer's past decides whether
    its n × n scores are new memory at every call, zeroed page by page. See mallopt(3), M_MMAP_THRESHOLD.

    Raises Unsupported if the C library is not glibc or refuses the setting.
    """
    settings = _SETTINGS[name]
    if not settings:
        return
    library = ctypes.CDLL(None)
    if sys.platform != "linux" or not hasattr(library, "gnu_get_libc_version"):
        raise Unsupported(f"allocator={name} needs glibc: measure with allocator=default")
    for parameter, value in settings:
        if not library.mallopt(parameter, value):
            raise Unsupported(f"allocator={name}: glibc refused mallopt({parameter}, {value})")


# Whether to end a warm-up, from the seconds of each call and those in all.
IsWarm = Callable[[list[float], float], bool]


def warm_up(
    call: Call, sync: Call, until: IsWarm, clock: Callable[[], float] = perf_counter
) -> tuple[list[float], float]:
    """Call until `until(seconds of each call, seconds in all)` is true. Return both. `sync` waits for a call's work."""
    times = []
    begin = clock()
    while True:
        start = clock()
        call()
        sync()
        now = clock()
        times.append(now - start)
        if until(times, now - begin):
            return times, now - begin


def settle_heap(call: Call) -> None:
    """Call until a heap that keeps its memory no longer grows. The page faults of growing then occur before timing."""
    faults = [getrusage(RUSAGE_SELF).ru_minflt]

    def is_settled(times: list[float], _: float) -> bool:
        faults.append(getrusage(RUSAGE_SELF).ru_minflt)
        quiet = [after - before <= _SETTLED_FAULTS for before, after in pairwise(faults[-_SETTLED_CALLS - 1 :])]
        return len(times) == _MOST_CALLS or (len(quiet) == _SETTLED_CALLS and all(quiet))

    warm_up(call, lambda: None, is_settled)


_BLOCKS = 128
# Blocks of up to 2^16 bytes are below glibc's initial mmap threshold of 128 KiB. A larger block would not lie in the
# heap, and freeing it would move the threshold.
_LARGEST_POWER = 16


def randomize_heap() -> list[bytearray]:
    """Give this trial's heap its own random layout. Keep the returned blocks until the trial ends.

    The C library reuses a large block, or fetches new pages from the kernel for every call. Which one happens depends
    on what lies above the block in the heap. This is decided by chance, once in the life of a process, and trials
    forked from one server inherit the same layout. Such trials agree with each other and their interval is narrow, but
    the trials of another sweep may be twice as fast.

    Example: packed attention at n = 512, d = 256, h = 8, with five trials from each of five parents. A call took 4.6 or
    8.2 ms, depending on the server, with 1,500 or 4,600 page faults.

    Therefore each trial first allocates blocks of random sizes and frees a random half. The layout then differs between
    trials, and the interval includes its effect. See Mytkowicz et al. 2009, "Producing wrong data without doing
    anything obviously wrong!".
    """
    draws = random.Random(os.urandom(8))
    blocks = [bytearray(draws.randrange(1, 1 << draws.randint(4, _LARGEST_POWER))) for _ in range(_BLOCKS)]
    return draws.sample(blocks, _BLOCKS // 2)


_TASKS = Path("/proc/self/task")


def cpu_places(threads: int) -> list[set[int]]:
    """Sets of `threads` CPUs each, which together contain all CPUs that this process may run on.

    With them, two trials can use the same CPUs in turn. The CPUs of a shared machine differ in speed. A neighbour on
    the other half of a core slows the CPU down for seconds, by two thirds on the machine where this was found. A
    process of one thread stays on its CPU. Of two such processes, one may have the fast CPU throughout and the other
    one the slow CPU.

    Empty if there is no choice: on systems other than Linux, or with at least as many threads as CPUs.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    cpus = sorted(os.sched_getaffinity(0))
    if threads >= len(cpus):
        return []
    starts = [*range(0, len(cpus) - threads, threads), len(cpus) - threads]
    return [set(cpus[start : start + threads]) for start in starts]


def affinity_mover(threads: int) -> Callable[[int], None]:
    """A function that moves all threads of this process to the CPU set of a number (see `cpu_places`).

    Numbers wrap around. Without a choice of CPUs the function does nothing.
    """
    known = cpu_places(threads)

    def move(number: int) -> None:
        if known:
            for task in _TASKS.iterdir():
                with contextlib.suppress(ProcessLookupError):  # the thread has just ended
                    os.sched_setaffinity(int(task.name), known[number % len(known)])

    return move


# 192³ multiply-adds: a tenth of a millisecond on one core, large enough to wake all threads. Exponentials, products of
# other sizes and attention, tried beside it, followed the times of layers no better.
_SIZE = 192
_READINGS = 8


@cache
def probe_matrices() -> tuple[Tensor, Tensor]:
    """The factor and the product of the probe. The fork server makes them, so that trials allocate nothing for them.

    A trial copies the pages of the product when it first writes to them, in the reading that does not count.

    The cost of new memory depends on the allocator, and large blocks that are freed change how the allocator behaves.
    NumPy fills the matrices, because the fork server must not start torch's threads.
    """
    factor, product = torch.from_numpy(np.ones((2, _SIZE, _SIZE), np.float32))
    return factor, product


@torch.no_grad()
def probe_readings() -> list[float]:
    """Times of the probe in seconds, with torch's present number of threads, after a first one that does not count.

    The probe is a reference workload, timed before and after the samples, and between long ones. Shared machines have
    several speeds. For seconds at a time, a neighbour takes part of the cores or the cache, and everything runs a third
    slower. A layer's samples cannot distinguish a disturbed machine from a slow layer. A fixed workload can.
    """
    factor, product = probe_matrices()
    readings = []
    for _ in range(1 + _READINGS):
        start = perf_counter()
        torch.mm(factor, factor, out=product)
        readings.append(perf_counter() - start)
    return readings[1:]


_STAT = Path("/proc/stat")
_FREQUENCY = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


@dataclass
class Usage:
    """Counters at one moment: this process's own, from getrusage(2), and the machine's ticks, from proc(5).

    Their increase during the samples shows what else happened, so that a slow trial can be explained. `cpu_s` is in
    seconds, from Python's `process_time`.
    """

    minor_faults: int
    major_faults: int
    involuntary_switches: int
    cpu_s: float
    steal_ticks: int = 0
    machine_ticks: int = 0

    def since(self, earlier: "Usage") -> dict[str, float]:
        """The increase of each counter since `earlier`."""
        increases = {name: value - getattr(earlier, name) for name, value in vars(self).items()}
        # A kernel may count stolen time backwards.
        return {name: round(max(0, increase), 6) for name, increase in increases.items()}


def usage() -> Usage:
    """The present counters, over all threads of this process."""
    # Read the process's own counters first, because reading the machine's increases them.
    r, cpu_s = getrusage(RUSAGE_SELF), process_time()
    try:
        steal, machine = cpu_ticks(_STAT.read_text())
    except OSError:  # not on Linux, or hidden by a sandbox
        steal = machine = 0
    return Usage(r.ru_minflt, r.ru_majflt, r.ru_nivcsw, cpu_s, steal, machine)


def cpu_ticks(stat: str) -> tuple[int, int]:
    """`(stolen, all)` ticks of all CPUs, from the text of /proc/stat.

    The fields are user nice system idle iowait irq softirq steal …. The guest time that follows is part of user time,
    so it is not counted again.
    """
    counted = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    return sum(counted[7:]), sum(counted)


def cpu_mhz(root: Path = Path("/")) -> float | None:
    """The clock rate of this thread's present CPU in MHz; None if the machine does not report it."""
    try:
        # Split after the command's name, which may contain spaces. `processor` is the 39th field of the whole line.
        cpu = (root / "proc/self/stat").read_text().rpartition(")")[2].split()[36]
        return int((root / _FREQUENCY.format(cpu)).read_text()) / 1000
    except (OSError, ValueError, IndexError):
        return None
