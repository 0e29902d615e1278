"""What a gate found of one thing that it looked at, and the exit status that all it found amounts to."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PASSED = "passed"
REGRESSION = "regression"
IMPROVED = "improved"
UNMEASURED = "unmeasured"
UNDECIDED = "undecided"
# The worst first: the order in which they are told.
VERDICTS = (REGRESSION, UNMEASURED, UNDECIDED, IMPROVED, PASSED)

FINE, WORSE, NOT_MEASURED = 0, 1, 3


@dataclass(frozen=True)
class Outcome:
    """One thing that was judged.

    `subject` is what it is of, its impl before the first space (`attention.fused n=2048 d=128 h=8`); `quantity` what
    of it (`peak memory`); `verdict` one of `VERDICTS`; `was` and `now` what was to be and what is, with units, as they
    are read, empty where there is none; `reason` one sentence, empty of what passed without a word.
    """

    subject: str
    quantity: str
    verdict: str
    was: str
    now: str
    reason: str

    @property
    def impl(self) -> str:
        """The layer it is of."""
        return self.subject.partition(" ")[0]


def exit_status(outcomes: Iterable[Outcome]) -> int:
    """1 if anything got worse; else 3 if anything could not be measured, or nothing was; else 0."""
    found = {outcome.verdict for outcome in outcomes}
    if REGRESSION in found:
        return WORSE
    return NOT_MEASURED if UNMEASURED in found or not found else FINE


def ordered(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The worst first; those of one verdict in the order in which they were found."""
    return sorted(outcomes, key=lambda outcome: VERDICTS.index(outcome.verdict))


def counted(outcomes: Sequence[Outcome]) -> str:
    """`2 regressions, 1 unmeasured, 40 passed`; `nothing was judged` of none."""
    numbers = Counter(outcome.verdict for outcome in outcomes)
    said = [f"{numbers[verdict]} {_plural(verdict, numbers[verdict])}" for verdict in VERDICTS if numbers[verdict]]
    return ", ".join(said) or "nothing was judged"


def _plural(verdict: str, number: int) -> str:
    return f"{verdict}s" if verdict == REGRESSION and number > 1 else verdict
