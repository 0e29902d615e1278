"""When a case has enough trials."""

from collections.abc import Sequence
from typing import Protocol

from harness.stats.estimate import Trial, estimate, quiet

# So many trials must have seen the machine undisturbed before the limit on trials may end a case.
LEAST_QUIET = 2


class Limits(Protocol):
    """What the rule needs of a precision: shares and seconds."""

    target: float
    min_rounds: int
    max_rounds: int
    case_s: float


def stop_reason(trials: Sequence[Trial], best_pulse_s: float | None, limits: Limits) -> str | None:
    """Why to stop, or None to go on.

    `precise`: the interval is as narrow as asked. `max_rounds`: it is not, after as many trials as allowed.
    `time_limit`: the case's trials have taken `case_s`. A case of which all trials but one were disturbed
    goes on beyond `max_rounds`: see `restless`.
    """
    undisturbed = quiet(trials, best_pulse_s)
    if len(undisturbed) >= limits.min_rounds and estimate(trials, best_pulse_s).half_width <= limits.target:
        return "precise"
    if len(trials) >= limits.max_rounds and len(undisturbed) >= LEAST_QUIET:
        return "max_rounds"
    if trials and sum(trial.wall_s for trial in trials) >= limits.case_s:
        return "time_limit"
    return None


def restless(trials: Sequence[Trial], best_pulse_s: float | None, limits: Limits) -> bool:
    """Whether the case has had its rounds, and the machine too little rest during them."""
    return len(trials) >= limits.max_rounds and stop_reason(trials, best_pulse_s, limits) is None
