"""The numbers of a trial that statistics use, and the rule for quiet trials."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

# The probe time of a quiet machine stays within 10 % of its best. On a disturbed machine, it is at least 25 % above it.
QUIET_PULSE = 1.15


@dataclass(frozen=True)
class Trial:
    """The samples of a trial in seconds per call, its wall time, and its probe time (`pulse_s`), if any."""

    samples_s: Sequence[float]
    wall_s: float = 0.0
    pulse_s: float | None = None

    @classmethod
    def of(cls, value_s: float, median_s: float, wall_s: float = 0.0, pulse_s: float | None = None) -> "Trial":
        """A trial that keeps only its fastest sample and its median, which are all that statistics use."""
        return cls((value_s, median_s, median_s), wall_s, pulse_s)

    @cached_property
    def value_s(self) -> float:
        """The value of the trial: its fastest sample."""
        return min(self.samples_s)

    @cached_property
    def median_s(self) -> float:
        """The median of its samples."""
        return median(self.samples_s)


def best_pulse(trials: Sequence[Trial]) -> float | None:
    """The best probe time of these trials, an estimate for the quiet machine; None without a probe."""
    return min((trial.pulse_s for trial in trials if trial.pulse_s is not None), default=None)


def quiet(trials: Sequence[Trial], best_pulse_s: float | None) -> list[Trial]:
    """The trials during which the machine ran at full speed, judged by the probe."""
    return [trial for trial in trials if is_quiet(trial.pulse_s, best_pulse_s)]


def is_quiet(pulse_s: float | None, best_pulse_s: float | None) -> bool:
    """Whether the probe time indicates full speed. A trial without a probe counts as quiet."""
    return pulse_s is None or best_pulse_s is None or pulse_s <= QUIET_PULSE * best_pulse_s
