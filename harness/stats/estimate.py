"""A case's time and its interval, from the spread between trials.

Noise on a busy machine only ever adds: a neighbour, a page fault, a lower clock. A trial's value is
therefore its fastest sample, and the case's time the fastest trial. Of the estimators tried that one repeats
best (`tests/bench/bench_noise.py` prints the figures for all of them).

The interval is between trials, since samples of one process are not independent of each other. Upwards it
reaches to where the lower half of the trials lie, and downwards, on a logarithmic scale, a multiple as far:
the one that makes the interval hold the median of `time_s` over repeats of the whole measurement 95 times in
100 where trials differ by log-normal noise, for the number of trials at hand. Skewed noise and a
second hump stretch the lower half more than they move the minimum, and leave the interval wider than need be.
Wide means that the trials do not agree where the floor is.

Trials taken while the machine itself was slow (see `quiet`) do not count as agreeing where there are others:
several of them may agree with each other, and on the wrong time. The fastest trial counts whenever it was taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np

CONFIDENCE = 0.95
# Enough for the multiple to be right within 2 %.
_DRAWS = 20_000

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
        """How far the interval reaches to its longer side, as a share; infinite where there is none yet."""
        return max(self.hi_s / self.time_s, self.time_s / self.lo_s if self.lo_s > 0 else math.inf) - 1


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
    fastest = min(trials, key=lambda trial: min(trial.samples_s))
    others = [trial for trial in quiet(trials, best_pulse_s) if trial is not fastest]
    if not others:
        others = [trial for trial in trials if trial is not fastest]
    lowest = [min(fastest.samples_s), *sorted(min(trial.samples_s) for trial in others)]
    number = len(lowest)
    if number == 1:
        return Estimate(lowest[0], 0.0, math.inf, middle)
    k = lower_half(number)
    down, up = _multiples(number, k)
    ratio = lowest[k - 1] / lowest[0]
    return Estimate(lowest[0], lowest[0] / ratio**down, lowest[0] * ratio**up, middle)


def lower_half(number: int) -> int:
    """How many of the lowest trials must lie close together for the time to be known."""
    return min(number, max(LEAST_AGREEING, math.ceil(number / 2)))


@cache
def _multiples(number: int, k: int) -> tuple[float, float]:
    """How far down and up to go from x₁, in units of x_k − x₁, to hold the median of x₁ with probability 0.95.

    Of sorted normal x₁ … x_number, free of their mean and scale; by simulation, always the same one, since there
    is no closed form. Upwards x_k is far enough for all but the smallest numbers of trials.
    """
    draws = np.sort(np.random.default_rng(0).standard_normal((_DRAWS, number)), axis=1)
    distance = (draws[:, 0] - np.median(draws[:, 0])) / (draws[:, k - 1] - draws[:, 0])
    up = float(np.quantile(np.abs(distance), CONFIDENCE))
    if np.mean(distance < -1) < (1 - CONFIDENCE) / 2:
        up = min(up, 1.0)
    return float(np.quantile(distance, CONFIDENCE + np.mean(distance < -up))), up
