"""What else happened while the clock ran: recorded with each trial, so that a slow one can be explained."""

import resource
import time
from dataclasses import dataclass


@dataclass
class Usage:
    """The process's counters at one moment, from getrusage(2)."""

    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    cpu_s: float

    def since(self, earlier: "Usage") -> dict[str, float]:
        """What was counted between `earlier` and now."""
        return {name: round(value - getattr(earlier, name), 6) for name, value in vars(self).items()}


def usage() -> Usage:
    """The counters now, all threads of this process included."""
    r = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(r.ru_minflt, r.ru_majflt, r.ru_nvcsw, r.ru_nivcsw, time.process_time())
