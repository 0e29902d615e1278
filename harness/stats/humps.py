"""Whether a case has two times rather than one, and what goes with it.

A layer whose scores are paid for in page faults in one process and not in the next has no single time; a number for
both misleads. Two humps are two groups of trials with a gap between them that dwarfs the spread within either.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

# The slow group is slower by at least this share …
LEAST_GAP = 0.15
# … and the gap so many times as wide as either group. At 3, one-humped noise of ±5 % is called two-humped in
# under 1 % of cases of four to twenty trials.
GAP_OVER_SPREAD = 3.0
FEWEST_TRIALS = 3
# A recorded counter explains the slow trials if all of them have more of it than any fast one, by this factor at least.
LEAST_FACTOR = 1.5


@dataclass(frozen=True)
class Counter:
    """Something recorded with every trial. `least` is what a difference must amount to, in its own unit, to matter."""

    name: str
    sentence: str
    least: float
    slow_has_more: bool = True


COUNTERS = (
    Counter("minor_faults_per_call", "slow trials paid {slow:,.0f} page faults a call, fast ones {fast:,.0f}", 20.0),
    Counter("major_faults_per_call", "slow trials read {slow:,.1f} pages a call from disk, fast ones {fast:,.1f}", 0.1),
    Counter("involuntary_switches", "slow trials were interrupted {slow:,.0f} times, fast ones {fast:,.0f} times", 5.0),
    Counter("steal_share", "the hypervisor took {slow:.0%} of the time of slow trials, {fast:.0%} of fast ones", 0.02),
    Counter("cpu_over_wall", "slow trials had {slow:.2f} CPUs, fast ones {fast:.2f}", 0.1, slow_has_more=False),
    Counter("cpu_mhz", "slow trials ran at {slow:,.0f} MHz, fast ones at {fast:,.0f}", 50.0, slow_has_more=False),
    Counter("sm_clock_mhz", "slow trials ran at {slow:,.0f} MHz, fast ones at {fast:,.0f}", 50.0, slow_has_more=False),
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
    cut = max(range(1, len(logs)), key=lambda i: logs[i] - logs[i - 1])
    gap = logs[cut] - logs[cut - 1]
    spread = max(logs[cut - 1] - logs[0], logs[-1] - logs[cut])
    fast, slow = order[:cut], order[cut:]
    cause = _cause([counters[i] for i in fast], [counters[i] for i in slow])
    # A group of one is a hump only where something recorded sets it apart: else it is a trial gone wrong.
    apart = min(len(fast), len(slow)) > 1 or cause is not None
    if gap < math.log1p(LEAST_GAP) or gap < GAP_OVER_SPREAD * spread or not apart:
        return Humps(1, median(times_s))
    return Humps(
        2,
        median(times_s[i] for i in fast),
        median(times_s[i] for i in slow),
        len(fast),
        len(slow),
        cause,
    )


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
    # As if each group had `least` more: a factor between two numbers that are next to nothing says nothing.
    factor = (min(high) + counter.least) / (max(low) + counter.least)
    if min(high) - max(low) < counter.least or factor < LEAST_FACTOR:
        return []
    return [(factor, counter.sentence.format(slow=median(of_slow), fast=median(of_fast)))]
