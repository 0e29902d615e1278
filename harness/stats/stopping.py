"""When a case has enough trials.

Stopping as soon as the interval is narrow picks the moments at which it is narrow by luck, and the interval then holds
the truth less often than it says: 91 times in 100 instead of 95, in simulation. So a rule that looks must pay: once the
interval is narrow, half as many trials again are made whatever they say, and the interval is a little wider than it
were if nobody looked (`interval.LOOKING`). That brings it back to 93 to 97 in 100 for the kinds of noise in
`tests/stats/noise.py`. Where every case gets the same number of trials, nobody looks.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.stats.estimate import estimate
from harness.stats.interval import half_widths
from harness.stats.trials import Trial, is_quiet

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


@dataclass(frozen=True)
class Seen:
    """What the rule looks at of one case: what each trial gave and whether it was quiet, in the order of the trials.

    `half_width` is how far the interval of all of them reaches, as a share; `wall_s` how long they took together.
    """

    values_s: Sequence[float]
    calm: Sequence[bool]
    wall_s: float
    half_width: float


def stop_reason(trials: Sequence[Trial], best_pulse_s: float | None, limits: Limits) -> str | None:
    """Why to stop, or None to go on.

    `precise`: the interval is as narrow as asked, and was so once before, with two thirds of the trials at most.
    `max_rounds`: it is not, after as many trials as allowed. `time_limit`: the case's trials have taken `case_s`. A
    case of which all trials but one were disturbed goes on beyond `max_rounds`: see `restless`.
    """
    calm = [is_quiet(trial.pulse_s, best_pulse_s) for trial in trials]
    wide = not trials or sum(calm) < limits.min_rounds
    return reason_of(
        Seen(
            [trial.value_s for trial in trials],
            calm,
            sum(trial.wall_s for trial in trials),
            math.inf if wide else estimate(trials, best_pulse_s).half_width,
        ),
        limits,
    )


def reason_of(seen: Seen, limits: Limits) -> str | None:
    """The same of numbers: `stop_reason` says what the answers mean."""
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
    """Whether the interval of the first one, two, three … trials was as narrow as asked, with quiet ones enough."""
    calm = 0
    for quiet, half_width in zip(seen.calm, half_widths(seen.values_s, limits.min_rounds), strict=True):
        calm += quiet
        yield calm >= limits.min_rounds and half_width <= limits.target


def confirmed(narrow: Sequence[bool], limits: Limits) -> bool:
    """Whether to believe it: `narrow[i]` says whether after i + 1 trials the interval was as narrow as asked."""
    return bool(narrow) and narrow[-1] and _confirmed(narrow, len(narrow), limits)


def _confirmed(narrow: Iterable[bool], number: int, limits: Limits) -> bool:
    """Whether the interval, narrow after `number` trials, was so early enough for the later ones to confirm it."""
    if number >= limits.max_rounds or not peeks(limits):
        return True  # no more are due, whenever it was
    early_enough = itertools.takewhile(lambda early: _due(early, limits) <= number, itertools.count(1))
    return any(then for _, then in zip(early_enough, narrow, strict=False))


def fewest(limits: Limits) -> int:
    """The trials of a case that is as narrow as asked from the start."""
    return _due(limits.min_rounds, limits)


def _due(first: int, limits: Limits) -> int:
    """How many trials settle a case whose interval was narrow after the `first`."""
    return min(first + math.ceil(CONFIRMATION * first), limits.max_rounds) if peeks(limits) else first


def restless(trials: Sequence[Trial], best_pulse_s: float | None, limits: Limits) -> bool:
    """Whether the case has had its rounds, and the machine too little rest during them."""
    return len(trials) >= limits.max_rounds and stop_reason(trials, best_pulse_s, limits) is None
