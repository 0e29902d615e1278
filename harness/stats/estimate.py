"""A case's time and its interval, from the spread between trials.

Noise on a busy machine only ever adds: a neighbour, a page fault, a lower clock. A trial's value is
therefore its fastest sample, and the case's time the fastest trial. That estimate repeats best (the
figures are in `tests/bench/bench_noise.py`): in one recorded hour of 12 cases on a shared machine, sets of
five trials had a run-to-run error of 6 % for the minimum of minima and 13 % for the median of medians.

The interval is between trials, since samples of one process are not independent of each other. It holds
the floor θ, the time with nothing in the way, and reaches up to where the lower half of the trials lie.
Its lower end extrapolates from how close together the lowest trials lie: where the excess over θ is
exponential, the spacings of the sorted trials are independent exponentials with known scales (Rényi 1953,
"On the theory of order statistics"), so the distance from the lowest trial down to θ is bounded by a
multiple of the distance from the lowest trial up to the k-th.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A case's time, in seconds: `lo_s` <= `time_s` <= `hi_s`, and the median beside it."""

    time_s: float
    lo_s: float
    hi_s: float
    median_s: float
    trials: int

    @property
    def half_width(self) -> float:
        """Half the interval, as a share of the time; infinite where there is no interval yet."""
        return (self.hi_s - self.lo_s) / 2 / self.time_s if self.time_s > 0 else math.inf


def estimate(trials: Sequence[Sequence[float]]) -> Estimate:
    """From each trial's samples, in seconds per call. Raises ValueError without any.

    A single trial says nothing of the spread between trials: its interval is (0, ∞).
    """
    if not trials or not all(trials):
        raise ValueError("an estimate needs at least one trial, and each trial at least one sample")
    lowest = sorted(min(samples) for samples in trials)
    middle = median(median(samples) for samples in trials)
    number = len(lowest)
    if number == 1:
        return Estimate(lowest[0], 0.0, math.inf, middle, 1)
    k = max(2, math.ceil(number / 2))
    spread = lowest[k - 1] - lowest[0]
    lo = max(0.0, lowest[0] - reach(number, k) * spread)
    return Estimate(lowest[0], lo, lowest[k - 1], middle, number)


@cache
def reach(number: int, k: int, confidence: float = CONFIDENCE) -> float:
    """The c for which θ >= x₁ − c (x_k − x₁) has this probability, of the sorted x₁ … x_number.

    With x₁ − θ = E₁/N and x_k − x₁ = Σ_{i=2…k} E_i/(N−i+1), the E_i independent standard exponentials,
    P(x₁ − θ > c (x_k − x₁)) = Π_{i=2…k} 1 / (1 + c N / (N−i+1)).
    """

    def miss(c: float) -> float:
        return math.prod(1 / (1 + c * number / (number - i + 1)) for i in range(2, k + 1))

    low, high = 0.0, 1.0
    while miss(high) > 1 - confidence:
        high *= 2
    for _ in range(60):  # bisection: 60 halvings exhaust a double
        middle = (low + high) / 2
        low, high = (middle, high) if miss(middle) > 1 - confidence else (low, middle)
    return high
