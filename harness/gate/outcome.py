"""The outcome of one comparison that a gate makes, and the exit status that follows from all of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.stats.paired.verdicts import UNDECIDED, UNMEASURED

PASSED = "passed"
REGRESSION = "regression"
IMPROVED = "improved"
# The worst first: the order in which outcomes are reported.
VERDICTS = (REGRESSION, UNMEASURED, UNDECIDED, IMPROVED, PASSED)

FINE, WORSE, NOT_MEASURED = 0, 1, 3


@dataclass(frozen=True)
class Outcome:
    """One thing that was judged.

    `subject` names the case or group, with its impl before the first space (`attention.fused n=2048 d=128 h=8`). The
    `quantity` is what was judged about it (`peak memory`), and `verdict` is one of `VERDICTS`.

    The texts `was` and `now` are the expected and the measured value, with units; an absent value is empty. The
    `reason` is one sentence, or empty if the outcome passed without comment.
    """

    subject: str
    quantity: str
    verdict: str
    was: str
    now: str
    reason: str

    @property
    def impl(self) -> str:
        """The layer's name: the subject up to its first space."""
        return self.subject.partition(" ")[0]


def exit_status(outcomes: Iterable[Outcome]) -> int:
    """1 if anything got worse, else 3 if anything or everything was not measured, else 0."""
    found = {outcome.verdict for outcome in outcomes}
    if REGRESSION in found:
        return WORSE
    return NOT_MEASURED if UNMEASURED in found or not found else FINE


def ordered(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes with the worst verdict first. Those with the same verdict keep their order."""
    return sorted(outcomes, key=lambda outcome: VERDICTS.index(outcome.verdict))


def counted(outcomes: Sequence[Outcome]) -> str:
    """`2 regressions, 1 unmeasured, 40 passed`, or `nothing was judged` if there are no outcomes."""
    numbers = Counter(outcome.verdict for outcome in outcomes)
    said = [f"{numbers[verdict]} {_plural(verdict, numbers[verdict])}" for verdict in VERDICTS if numbers[verdict]]
    return ", ".join(said) or "nothing was judged"


def _plural(verdict: str, number: int) -> str:
    return f"{verdict}s" if verdict == REGRESSION and number > 1 else verdict
