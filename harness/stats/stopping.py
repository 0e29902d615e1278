"""When a case has enough trials."""

from collections.abc import Sequence
from typing import Protocol

from harness.stats.estimate import estimate


class Limits(Protocol):
    """What the rule needs of a precision: shares and seconds."""

    target: float
    min_rounds: int
    max_rounds: int
    case_s: float


def stop_reason(trials: Sequence[Sequence[float]], spent_s: float, limits: Limits) -> str | None:
    """Why to stop: `precise`, `max_rounds` or `time_limit`; None to go on.

    `trials` are each trial's samples, `spent_s` the wall time that the case's trials have taken.
    """
    if len(trials) >= limits.min_rounds and estimate(trials).half_width <= limits.target:
        return "precise"
    if len(trials) >= limits.max_rounds:
        return "max_rounds"
    if trials and spent_s >= limits.case_s:
        return "time_limit"
    return None
