"""Detect bimodal timing, and find a likely cause among the recorded counters.

The score matrix of a layer may cost page faults in one process and none in the next. This layer has two times, and a
single number misleads. Timing is bimodal if the trials form two groups that differ far more than the trials within
either group.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from .estimate import Flags
from .interval import Floats, Numbers

# Least difference between the groups, as a share …
SMALLEST_GAP = 0.15
# … and the least share of the variance of log time that the division must explain. Unimodal noise of any width
# (normal, exponential or log-normal) passes in under 3 % of cases of six or more trials. From nine trials on, four in
# five bimodal cases are found, if the groups are equal, 65 % apart and no wider than ±5 % each.
LEAST_EXPLAINED = 0.92
FEWEST_TRIALS = 3
# Least number of trials in each group if no counter distinguishes the groups. With four trials of ±15 % noise, one case
# in twenty has a gap this wide by chance.
FEWEST_UNEXPLAINED = 3
# Allowed rounding error of the fast sums, as a share of the total. A million trials use a thousandth of this margin.
_MARGIN = 1e-9

# The counters of some trials, by name.
TrialCounters = Sequence[Mapping[str, float | None]]


@dataclass(frozen=True)
class Counter:
    """A quantity recorded with every trial.

    It explains the slow trials if each of them has more than any fast trial. Required are at least `factor` times as
    much, and at least `least` more in the unit of the counter. If `slow_has_more` is false, the fast trials must have
    more.
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
class Bimodality:
    """The times of the fast and of the slow group, in seconds. Without an explanation `cause` is None."""

    fast_s: float
    slow_s: float
    cause: str | None


def find_bimodality(times_s: Sequence[float], counters: TrialCounters) -> Bimodality | None:
    """The two groups of bimodal trials, from their times and their counters.

    None if they are unimodal, or fewer than `FEWEST_TRIALS`.
    """
    if len(times_s) < FEWEST_TRIALS:
        return None
    order = np.argsort(times_s, kind="stable")
    logs = np.log(times_s)[order]
    (between,), (total,) = _between(logs[None], np.array([len(logs)]))
    cut = 1 + int(between.argmax())
    groups = order[:cut], order[cut:]
    fast_s, slow_s = (median(times_s[i] for i in group) for group in groups)
    gap = np.median(logs[cut:]) - np.median(logs[:cut])
    if gap < math.log1p(SMALLEST_GAP) or between[cut - 1] < LEAST_EXPLAINED * total:
        return None
    fast, slow = ([counters[i] for i in group] for group in groups)
    cause = _cause(fast, slow)
    if min(len(fast), len(slow)) < FEWEST_UNEXPLAINED and cause is None:
        return None
    return Bimodality(fast_s, slow_s, cause)


def may_be_bimodal(times_s: Floats, counting: Flags) -> Flags:
    """Which of many cases may be bimodal, (cases,), judged by the trials that count (cases, trials).

    A fast test that saves most cases the exact one: `find_bimodality` finds no other case bimodal.
    """
    logs = np.sort(np.where(counting, np.log(times_s), np.inf), axis=1)
    numbers = counting.sum(axis=1)
    logs = np.where(np.arange(logs.shape[1]) < numbers[:, None], logs, logs[:, :1])
    wide = logs.max(axis=1) > logs[:, 0] + math.log1p(SMALLEST_GAP) - _MARGIN
    chosen = np.flatnonzero(wide & (numbers >= FEWEST_TRIALS))
    between, total = _between(logs[chosen], numbers[chosen])
    possible = np.zeros(len(logs), dtype=bool)
    possible[chosen] = between.max(axis=1, initial=0.0) > (LEAST_EXPLAINED - _MARGIN) * total
    return possible


def _between(values: Floats, numbers: Numbers) -> tuple[Floats, Floats]:
    """The variation explained by a cut after each value but the last (cases, N − 1), and the total (cases,).

    Only the first `numbers` (cases,) of the `values` (cases, N) count; a cut beyond them explains 0. Cumulative sums
    take N steps, but are less accurate by some digits than the variations of the parts themselves.
    """
    position = np.arange(1, values.shape[1] + 1)
    number = numbers[:, None]
    is_counted = position <= number
    mean = np.where(is_counted, values, 0.0).sum(axis=1, keepdims=True) / number
    centred = np.where(is_counted, values - mean, 0.0)
    sums = np.cumsum(centred, axis=1)
    whole = sums[:, -1:]
    before, cut = sums[:, :-1], position[:-1]
    after = np.maximum(number - cut, 1)
    between = before**2 / cut + (whole - before) ** 2 / after - whole**2 / number
    return np.where(cut < number, between, 0.0), (centred**2).sum(axis=1)


def _cause(fast: TrialCounters, slow: TrialCounters) -> str | None:
    """A sentence about the counter that distinguishes the groups most clearly; None without one."""
    separations = [seen for counter in COUNTERS if (seen := _separation(counter, fast, slow))]
    return max(separations)[1] if separations else None


def _separation(counter: Counter, fast: TrialCounters, slow: TrialCounters) -> tuple[float, str] | None:
    """The factor between the groups and a sentence; None if the counter does not distinguish them."""
    of_fast, of_slow = ([v for trial in of if (v := trial.get(counter.name)) is not None] for of in (fast, slow))
    if len(of_fast) < len(fast) or len(of_slow) < len(slow):
        return None
    low, high = (of_fast, of_slow) if counter.slow_has_more else (of_slow, of_fast)
    if min(high) - max(low) < counter.least or min(high) < counter.factor * max(low):
        return None
    # Add `least` to both groups: a hundred times a negligible value is still small.
    strength = (min(high) + counter.least) / (max(low) + counter.least)
    return strength, counter.sentence.format(slow=median(of_slow), fast=median(of_fast))
