"""Record what else happened during the samples of each trial, so that a slow trial can be explained."""

import resource
from dataclasses import dataclass
from pathlib import Path
from time import process_time

_STAT = Path("/proc/stat")
_FREQUENCY = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


@dataclass
class Usage:
    """Counters at one moment: this process's own, from getrusage(2), and the machine's ticks, from proc(5).

    `cpu_s` is in seconds, from Python's `process_time`.
    """

    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    cpu_s: float
    steal_ticks: int = 0
    machine_ticks: int = 0

    def since(self, earlier: "Usage") -> dict[str, float]:
        """The increase of each counter since `earlier`."""
        return {name: round(value - getattr(earlier, name), 6) for name, value in vars(self).items()}


def usage() -> Usage:
    """The present counters, over all threads of this process."""
    # Read the process's own counters first, because reading the machine's increases them.
    r, cpu_s = resource.getrusage(resource.RUSAGE_SELF), process_time()
    try:
        steal, machine = ticks(_STAT.read_text())
    except OSError:  # not on Linux, or hidden by a sandbox
        steal = machine = 0
    return Usage(r.ru_minflt, r.ru_majflt, r.ru_nvcsw, r.ru_nivcsw, cpu_s, steal, machine)


def ticks(stat: str) -> tuple[int, int]:
    """`(stolen, all)` ticks of all CPUs, from the text of /proc/stat.

    The fields are user nice system idle iowait irq softirq steal …. The guest time that follows is part of user time,
    so it is not counted again.
    """
    counted = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    return (counted[7] if len(counted) > 7 else 0), sum(counted)


def cpu_mhz(root: Path = Path("/")) -> float | None:
    """The clock rate of this thread's present CPU in MHz; None if the machine does not report it."""
    try:
        # Split after the command's name, which may contain spaces. `processor` is the 39th field of the whole line.
        cpu = (root / "proc/self/stat").read_text().rpartition(")")[2].split()[36]
        return int((root / _FREQUENCY.format(cpu)).read_text()) / 1000
    except (OSError, ValueError, IndexError):
        return None
