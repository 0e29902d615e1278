"""Decide when a case has enough trials.

A rule that stops as soon as the interval is narrow selects moments at which it is narrow by chance. The interval then
contains the true value less often than stated: 91 times in 100 instead of 95, in simulation. Two measures correct this.
Once the interval is narrow, half as many trials are added, whatever they measure. The interval is also slightly wider
than without interim looks (`PEEKING_INFLATION`). The coverage is then 93 to 97 in 100 for the kinds of noise in
`tests/stats/noise.py`.

No such rule is needed if every case gets the same number of trials.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.stats.estimate import Trial, estimate, half_widths, is_quiet

# Number of quiet trials that a case needs before the limit on trials may end it.
LEAST_QUIET = 2
# Trials added once the interval is narrow, as a share of the trials made before.
CONFIRMATION = 0.5


class Limits(Protocol):
    """The settings of a precision that the rule needs: shares, numbers of trials and seconds."""

    target: float
    min_rounds: int
    max_rounds: int
    case_s: float


def peeks(limits: Limits) -> bool:
    """Whether the number of trials depends on the measured values."""
    return limits.min_rounds < limits.max_rounds


@dataclass(frozen=True)
class Seen:
    """The data of one case that the rule uses: values and quiet flags of its trials, in order.

    The interval of all trials has the `half_width`, a share. The trials together took `wall_s`.
    """

    values_s: Sequence[float]
    calm: Sequence[bool]
    wall_s: float
    half_width: float


def stop_reason(trials: Sequence[Trial], best_probe_s: float | None, limits: Limits) -> str | None:
    """The reason to stop, or None to continue.

    - The interval is as narrow as `target`, and already was with at most two thirds of the trials (`precise`). The
      second condition does not apply at the maximum number of trials, or if that number is fixed.
    - The interval is wider, and the case has the maximum number of trials (`max_rounds`).
    - The trials of the case have taken `case_s` (`time_limit`).

    A case with fewer than `LEAST_QUIET` quiet trials continues beyond `max_rounds` (see `restless`).
    """
    calm = [is_quiet(trial.probe_s, best_probe_s) for trial in trials]
    wide = not trials or sum(calm) < limits.min_rounds
    return reason_of(
        Seen(
            [trial.value_s for trial in trials],
            calm,
            sum(trial.wall_s for trial in trials),
            math.inf if wide else estimate(trials, best_probe_s).half_width,
        ),
        limits,
    )


def reason_of(seen: Seen, limits: Limits) -> str | None:
    """The reason to stop, as in `stop_reason`, from the numbers of a case."""
    number, calm = len(seen.values_s), sum(seen.calm)
    narrow = number > 0 and calm >= limits.min_rounds and seen.half_width <= limits.target
    if narrow and _confirmed(_narrow(seen, limits), number, limits):
        return "precise"
    if number >= limits.max_rounds and calm >= min(LEAST_QUIET, limits.max_rounds):
        return "max_rounds"
    if number and seen.wall_s >= limits.case_s:
        return "time_limit"
    return None


def _narrow(seen: Seen, limits: Limits) -> Iterator[bool]:
    """Yield, for the first one, two, three … trials, whether the interval was narrow and enough trials were quiet."""
    calm = 0
    for quiet, half_width in zip(seen.calm, half_widths(seen.values_s, limits.min_rounds), strict=True):
        calm += quiet
        yield calm >= limits.min_rounds and half_width <= limits.target


def confirmed(narrow: Sequence[bool], limits: Limits) -> bool:
    """Whether a narrow interval is confirmed. `narrow[i]` says whether it was narrow after i + 1 trials."""
    return bool(narrow) and narrow[-1] and _confirmed(narrow, len(narrow), limits)


def _confirmed(narrow: Iterable[bool], number: int, limits: Limits) -> bool:
    """Whether the interval, narrow after `number` trials, was narrow early enough for later ones to confirm it."""
    if number >= limits.max_rounds or not peeks(limits):
        return True  # no more trials are due, so none can confirm it
    early_enough = itertools.takewhile(lambda early: _due(early, limits) <= number, itertools.count(1))
    return any(then for _, then in zip(early_enough, narrow, strict=False))


def fewest(limits: Limits) -> int:
    """The number of trials of a case whose interval is narrow from the start."""
    return _due(limits.min_rounds, limits)


def _due(first: int, limits: Limits) -> int:
    """How many trials a case needs if its interval was narrow after `first` trials."""
    return min(first + math.ceil(CONFIRMATION * first), limits.max_rounds) if peeks(limits) else first


def restless(trials: Sequence[Trial], best_probe_s: float | None, limits: Limits) -> bool:
    """Whether the case has had `max_rounds` trials and must continue, because too few of them were quiet."""
    return len(trials) >= limits.max_rounds and stop_reason(trials, best_probe_s, limits) is None
