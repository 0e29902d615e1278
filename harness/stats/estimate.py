"""A case's time and its interval, from the spread between trials.

Noise on a busy machine only ever adds: a neighbour, a page fault, a lower clock. A trial's value is
therefore its fastest sample, and the case's time the fastest trial. Of the estimators tried that one repeats
best (`tests/bench/bench_noise.py` prints the figures for all of them).

The interval is between trials, since samples of one process are not independent of each other: it reaches
up to where the lower half of the trials lie, and as far down. That is a bootstrap interval of the minimum
read without its random draws: a minimum redrawn from the trials lies at or below the k-th lowest nearly
always, and what it is above the estimate, the estimate may be above the truth (the basic bootstrap: Davison
and Hinkley 1997, "Bootstrap Methods and their Application", section 5.2). Wide means that the trials do not
agree where the floor is; the bench prints how often it holds what it should.

Trials taken while the machine itself was slow (see `quiet`) count only where there are no others: several
of them may agree with each other, and on the wrong time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

# A quiet machine's pulse stays within 10 % of its best, a disturbed one's is 25 % and more above it.
QUIET_PULSE = 1.15
# Of three trials or fewer all must agree, however few the lower half would be.
LEAST_AGREEING = 3


@dataclass(frozen=True)
class Trial:
    """One trial's samples in seconds per call, its wall time, and the machine's pulse beside it, if taken."""

    samples_s: Sequence[float]
    wall_s: float = 0.0
    pulse_s: float | None = None


@dataclass(frozen=True)
class Estimate:
    """A case's time, in seconds: `lo_s` <= `time_s` <= `hi_s`, and the median over all its trials beside it."""

    time_s: float
    lo_s: float
    hi_s: float
    median_s: float

    @property
    def half_width(self) -> float:
        """Half the interval, as a share of the time; infinite where there is no interval yet."""
        return (self.hi_s - self.lo_s) / 2 / self.time_s if self.time_s > 0 else math.inf


def best_pulse(trials: Sequence[Trial]) -> float | None:
    """The pulse of the machine undisturbed, as far as these trials have seen it; None where none took it."""
    return min((trial.pulse_s for trial in trials if trial.pulse_s is not None), default=None)


def quiet(trials: Sequence[Trial], best_pulse_s: float | None) -> list[Trial]:
    """Those of the trials during which the machine ran at its full speed, as far as the pulse can tell."""
    if best_pulse_s is None:
        return list(trials)
    return [trial for trial in trials if trial.pulse_s is None or trial.pulse_s <= QUIET_PULSE * best_pulse_s]


def estimate(trials: Sequence[Trial], best_pulse_s: float | None = None) -> Estimate:
    """The case's time from its trials. Raises ValueError without any.

    A single trial says nothing of the spread between trials: its interval is (0, ∞).
    """
    if not trials or not all(trial.samples_s for trial in trials):
        raise ValueError("an estimate needs at least one trial, and each trial at least one sample")
    middle = median(median(trial.samples_s) for trial in trials)
    lowest = sorted(min(trial.samples_s) for trial in quiet(trials, best_pulse_s) or trials)
    number = len(lowest)
    if number == 1:
        return Estimate(lowest[0], 0.0, math.inf, middle)
    agreeing = min(number, max(LEAST_AGREEING, math.ceil(number / 2)))
    reach = lowest[agreeing - 1] - lowest[0]
    return Estimate(lowest[0], max(0.0, lowest[0] - reach), lowest[0] + reach, middle)
