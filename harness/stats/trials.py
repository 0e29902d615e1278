"""What a trial leaves behind for statistics, and which trials saw the machine undisturbed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

# A quiet machine's pulse stays within 10 % of its best, a disturbed one's is 25 % and more above it.
QUIET_PULSE = 1.15


@dataclass(frozen=True)
class Trial:
    """One trial's samples in seconds per call, its wall time, and the machine's pulse beside it, if taken."""

    samples_s: Sequence[float]
    wall_s: float = 0.0
    pulse_s: float | None = None

    @classmethod
    def of(cls, value_s: float, median_s: float, wall_s: float = 0.0, pulse_s: float | None = None) -> "Trial":
        """One of which the fastest sample and the median are kept, which is all that is asked of it."""
        return cls((value_s, median_s, median_s), wall_s, pulse_s)

    @cached_property
    def value_s(self) -> float:
        """The one number that a trial gives: its fastest sample."""
        return min(self.samples_s)

    @cached_property
    def median_s(self) -> float:
        """The median of its samples."""
        return median(self.samples_s)


def best_pulse(trials: Sequence[Trial]) -> float | None:
    """The pulse of the machine undisturbed, as far as these trials have seen it; None where none took it."""
    return min((trial.pulse_s for trial in trials if trial.pulse_s is not None), default=None)


def quiet(trials: Sequence[Trial], best_pulse_s: float | None) -> list[Trial]:
    """Those of the trials during which the machine ran at its full speed, as far as the pulse can tell."""
    return [trial for trial in trials if is_quiet(trial.pulse_s, best_pulse_s)]


def is_quiet(pulse_s: float | None, best_pulse_s: float | None) -> bool:
    """Whether the machine ran at its full speed beside that pulse; nothing speaks against it where none was taken."""
    return pulse_s is None or best_pulse_s is None or pulse_s <= QUIET_PULSE * best_pulse_s
