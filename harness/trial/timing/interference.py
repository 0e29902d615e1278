"""What else happened while the clock ran: recorded with each trial, so that a slow one can be explained."""

import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_FREQUENCY = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


@dataclass
class Usage:
    """Counters at one moment: the process's own, from getrusage(2), and the whole machine's ticks, from proc(5)."""

    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    cpu_s: float
    steal_ticks: int = 0
    machine_ticks: int = 0

    def since(self, earlier: "Usage") -> dict[str, float]:
        """What was counted between `earlier` and now."""
        return {name: round(value - getattr(earlier, name), 6) for name, value in vars(self).items()}


def usage() -> Usage:
    """The counters now, all threads of this process included."""
    steal, machine = ticks(_STAT.read_text()) if sys.platform == "linux" else (0, 0)
    r = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(r.ru_minflt, r.ru_majflt, r.ru_nvcsw, r.ru_nivcsw, time.process_time(), steal, machine)


def ticks(stat: str) -> tuple[int, int]:
    """`(stolen, all)` of all CPUs, of the text of /proc/stat: user nice system idle iowait irq softirq steal …

    Guest time, after that, is part of user time and not counted again.
    """
    counted = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    return (counted[7] if len(counted) > 7 else 0), sum(counted)


def cpu_mhz() -> float | None:
    """The clock of the CPUs that this process may use, on average; None where the machine does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    files = [Path(_FREQUENCY.format(cpu)) for cpu in sorted(os.sched_getaffinity(0))]
    read = [int(file.read_text()) / 1000 for file in files if file.exists()]
    return sum(read) / len(read) if read else None
