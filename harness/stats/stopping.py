"""When a case has enough trials.

Stopping as soon as the interval is narrow picks the moments at which it is narrow by luck, and the interval then holds
the truth less often than it says: 91 times in 100 instead of 95, in simulation. So a rule that looks must pay: once the
interval is narrow, half as many trials again are made whatever they say, and the interval is a little wider than it
were if nobody looked (`interval.LOOKING`). That brings it back to 93 to 97 in 100 for the kinds of noise in
`tests/stats/noise.py`. Where every case gets the same number of trials, nobody looks.
"""

import math
from collections.abc import Sequence
from typing import Protocol

from harness.stats.estimate import estimate
from harness.stats.trials import Trial, quiet

# So many trials must have seen the machine undisturbed before the limit on trials may end a case.
LEAST_QUIET = 2
# Trials made unlooked-at once the interval is narrow, as a share of those made before.
CONFIRMATION = 0.5


class Limits(Protocol):
    """What the rule needs of a precision: shares and seconds."""

    target: float
    min_rounds: int
    max_rounds: int
    case_s: float


def peeks(limits: Limits) -> bool:
    """Whether the number of trials depends on what they say."""
    return limits.min_rounds < limits.max_rounds


def stop_reason(trials: Sequence[Trial], best_pulse_s: float | None, limits: Limits) -> str | None:
    """Why to stop, or None to go on.

    `precise`: the interval is as narrow as asked, and was so once before, with two thirds of the trials at most.
    `max_rounds`: it is not, after as many trials as allowed. `time_limit`: the case's trials have taken `case_s`. A
    case of which all trials but one were disturbed goes on beyond `max_rounds`: see `restless`.
    """
    if confirmed([_narrow(trials[:number], best_pulse_s, limits) for number in range(1, len(trials) + 1)], limits):
        return "precise"
    if len(trials) >= limits.max_rounds and len(quiet(trials, best_pulse_s)) >= min(LEAST_QUIET, limits.max_rounds):
        return "max_rounds"
    if trials and sum(trial.wall_s for trial in trials) >= limits.case_s:
        return "time_limit"
    return None


def confirmed(narrow: Sequence[bool], limits: Limits) -> bool:
    """Whether to believe it: `narrow[i]` says whether after i + 1 trials the interval was as narrow as asked."""
    if not narrow or not narrow[-1]:
        return False
    return len(narrow) >= _due(narrow.index(True) + 1, limits)


def fewest(limits: Limits) -> int:
    """The trials of a case that is as narrow as asked from the start."""
    return _due(limits.min_rounds, limits)


def _due(first: int, limits: Limits) -> int:
    """How many trials settle a case whose interval was narrow after the `first`."""
    return min(first + math.ceil(CONFIRMATION * first), limits.max_rounds) if peeks(limits) else first


def _narrow(trials: Sequence[Trial], best_pulse_s: float | None, limits: Limits) -> bool:
    if len(quiet(trials, best_pulse_s)) < limits.min_rounds:
        return False
    return estimate(trials, best_pulse_s).half_width <= limits.target


def restless(trials: Sequence[Trial], best_pulse_s: float | None, limits: Limits) -> bool:
    """Whether the case has had its rounds, and the machine too little rest during them."""
    return len(trials) >= limits.max_rounds and stop_reason(trials, best_pulse_s, limits) is None
