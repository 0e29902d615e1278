"""Whether a case has two times rather than one, and what goes with it.

A layer whose scores are paid for in page faults in one process and not in the next has no single time; a number for
both misleads. Two humps are two groups of trials that differ by far more between them than within either.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

# The slow group is slower by at least this share …
LEAST_GAP = 0.15
# … and the division into two groups explains this share of the variance of log time. Of one-humped noise of any width,
# normal, exponential or log-normal, it does so in under 3 % of cases of six trials or more, and finds four in five of
# two equal humps of 65 % from nine trials on, if each is no wider than ± 5 %.
LEAST_EXPLAINED = 0.92
FEWEST_TRIALS = 3
# Trials on each side, where nothing recorded sets the groups apart: of four trials of noise of ±15 % one case in twenty
# has a gap as wide by chance.
FEWEST_UNEXPLAINED = 3
# By how much of the whole sums that are made quickly may be wrong; of a million trials, a thousandth of it.
_MARGIN = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counter:
    """Something recorded with every trial. It explains the slow ones if each of them has more of it than any fast one:

    more by `factor`, and by `least` in its own unit.
    """

    name: str
    sentence: str
    least: float
    factor: float = 1.5
    slow_has_more: bool = True


_CLOCK = "slow trials ran at {slow:,.0f} MHz, fast ones at {fast:,.0f}"
COUNTERS = (
    Counter("minor_faults_per_call", "slow trials paid {slow:,.0f} page faults a call, fast ones {fast:,.0f}", 20.0),
    Counter("major_faults_per_call", "slow trials read {slow:,.1f} pages a call from disk, fast ones {fast:,.1f}", 0.1),
    Counter("involuntary_switches", "slow trials were interrupted {slow:,.0f} times, fast ones {fast:,.0f} times", 5.0),
    Counter("steal_share", "the hypervisor took {slow:.0%} of the time of slow trials, {fast:.0%} of fast ones", 0.02),
    Counter("cpu_over_wall", "slow trials had {slow:.2f} CPUs, fast ones {fast:.2f}", 0.1, 1.1, slow_has_more=False),
    Counter("cpu_mhz", _CLOCK, 50.0, 1.1, slow_has_more=False),
    Counter("sm_clock_mhz", _CLOCK, 50.0, 1.1, slow_has_more=False),
)


@dataclass(frozen=True)
class Humps:
    """One time or two, in seconds, with the number of trials on each; `cause` is None where nothing recorded tells."""

    count: int
    fast_s: float
    slow_s: float | None = None
    fast_trials: int = 0
    slow_trials: int = 0
    cause: str | None = None


def find_humps(times_s: Sequence[float], counters: Sequence[Mapping[str, float | None]]) -> Humps | None:
    """The humps among trials that took `times_s`, with what was recorded beside each; None of too few trials."""
    if len(times_s) < FEWEST_TRIALS:
        return None
    order = sorted(range(len(times_s)), key=times_s.__getitem__)
    logs = [math.log(times_s[i]) for i in order]
    cut, explained = _division(logs)
    fast, slow = order[:cut], order[cut:]
    gap = median(logs[cut:]) - median(logs[:cut])
    if gap < math.log1p(LEAST_GAP) or explained < LEAST_EXPLAINED:
        return Humps(1, median(times_s))
    cause = _cause([counters[i] for i in fast], [counters[i] for i in slow])
    if min(len(fast), len(slow)) < FEWEST_UNEXPLAINED and cause is None:
        return Humps(1, median(times_s))
    return Humps(
        2,
        median(times_s[i] for i in fast),
        median(times_s[i] for i in slow),
        len(fast),
        len(slow),
        cause,
    )


def may_be_two(times_s: Floats, counting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of many cases, (cases, trials), those in which `find_humps` may find two humps among the trials that count.

    A quick look at all, to spare most of them the exact one: in the others it finds none.
    """
    logs = np.sort(np.where(counting, np.log(times_s), np.inf), axis=1)
    numbers = counting.sum(axis=1)
    logs = np.where(np.arange(logs.shape[1]) < numbers[:, None], logs, logs[:, :1])
    wide = logs.max(axis=1) > logs[:, 0] + math.log1p(LEAST_GAP) - _MARGIN
    chosen = np.flatnonzero(wide & (numbers >= FEWEST_TRIALS))
    between, total = _between(logs[chosen], numbers[chosen])
    possible = np.zeros(len(logs), dtype=bool)
    possible[chosen] = between.max(axis=1, initial=0.0) > (LEAST_EXPLAINED - _MARGIN) * total
    return possible


def _division(logs: Sequence[float]) -> tuple[int, float]:
    """Where to cut ascending numbers in two so that the variance within the parts is least, and what share is not."""
    total = _variation(logs)
    if total == 0:
        return 1, 0.0
    (between,), _ = _between(np.array([logs]), np.array([len(logs)]))
    near = 1 + np.flatnonzero(between >= between.max() - _MARGIN * total)
    within, cut = min((_variation(logs[:i]) + _variation(logs[i:]), i) for i in near.tolist())
    return cut, 1 - within / total


def _between(values: Floats, numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """What a cut after each value but the last explains of the variation, (cases, N − 1), and all of it, (cases,).

    Of the first `numbers` (cases,) of `values` (cases, N) each; 0 for a cut beyond them. In N steps, by sums up to the
    cut, and so to some digits less than the variations of the parts themselves.
    """
    position = np.arange(1, values.shape[1] + 1)
    number = numbers[:, None]
    known = position <= number
    mean = np.where(known, values, 0.0).sum(axis=1, keepdims=True) / number
    centred = np.where(known, values - mean, 0.0)
    sums = np.cumsum(centred, axis=1)
    whole = sums[:, -1:]
    before, cut = sums[:, :-1], position[:-1]
    after = np.maximum(number - cut, 1)
    between = before**2 / cut + (whole - before) ** 2 / after - whole**2 / number
    return np.where(cut < number, between, 0.0), (centred**2).sum(axis=1)


def _variation(values: Sequence[float]) -> float:
    """The sum of squared distances from the mean."""
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _cause(fast: Sequence[Mapping[str, float | None]], slow: Sequence[Mapping[str, float | None]]) -> str | None:
    """The counter that sets the slow trials apart most clearly, in words."""
    found = [
        (strength, words) for counter in COUNTERS if (seen := _apart(counter, fast, slow)) for strength, words in seen
    ]
    return max(found)[1] if found else None


def _apart(
    counter: Counter, fast: Sequence[Mapping[str, float | None]], slow: Sequence[Mapping[str, float | None]]
) -> list[tuple[float, str]]:
    """The factor between the groups and the sentence, if the counter has no value common to both; else nothing."""
    of_fast = [value for trial in fast if (value := trial.get(counter.name)) is not None]
    of_slow = [value for trial in slow if (value := trial.get(counter.name)) is not None]
    if len(of_fast) < len(fast) or len(of_slow) < len(slow):
        return []
    low, high = (of_fast, of_slow) if counter.slow_has_more else (of_slow, of_fast)
    if min(high) - max(low) < counter.least or min(high) < counter.factor * max(low):
        return []
    # As if each group had `least` more: next to nothing, a hundred times as much is little.
    strength = (min(high) + counter.least) / (max(low) + counter.least)
    return [(strength, counter.sentence.format(slow=median(of_slow), fast=median(of_fast)))]
