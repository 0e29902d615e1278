"""What else happened while the clock ran: recorded with each trial, so that a slow one can be explained."""

import resource
from dataclasses import dataclass
from pathlib import Path
from time import process_time

_STAT = Path("/proc/stat")
_FREQUENCY = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


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
    # The process's own first: reading the machine's costs some of them.
    r, cpu_s = resource.getrusage(resource.RUSAGE_SELF), process_time()
    try:
        steal, machine = ticks(_STAT.read_text())
    except OSError:  # not on Linux, or hidden by a sandbox
        steal = machine = 0
    return Usage(r.ru_minflt, r.ru_majflt, r.ru_nvcsw, r.ru_nivcsw, cpu_s, steal, machine)


def ticks(stat: str) -> tuple[int, int]:
    """`(stolen, all)` of all CPUs, of the text of /proc/stat: user nice system idle iowait irq softirq steal …

    Guest time, after that, is part of user time and not counted again.
    """
    counted = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    return (counted[7] if len(counted) > 7 else 0), sum(counted)


def cpu_mhz(root: Path = Path("/")) -> float | None:
    """The clock of the CPU that this thread runs on now, in MHz; None where the machine does not tell."""
    try:
        # Fields after the command's name, which may hold spaces: `processor` is the 39th of all.
        cpu = (root / "proc/self/stat").read_text().rpartition(")")[2].split()[36]
        return int((root / _FREQUENCY.format(cpu)).read_text()) / 1000
    except (OSError, ValueError, IndexError):
        return None
