"""A comparison as outcomes of a gate: a slower head, or one that takes more, is a regression."""

from collections.abc import Iterator
from dataclasses import replace

from harness.case import Case
from harness.gate.compared import ALIKE, LESS, MORE, NONE, UNKNOWN, Amount, Compared, Comparison, is_disarmed
from harness.gate.keyed import subject
from harness.gate.outcome import IMPROVED, PASSED, REGRESSION, Outcome
from harness.report import units
from harness.stats.paired import verdicts
from harness.stats.paired.verdicts import UNDECIDED, UNMEASURED

TIME, MEMORY, FLOPS = "time", "peak memory", "flops"
_OF_TIME = {
    verdicts.SLOWER: REGRESSION,
    verdicts.FASTER: IMPROVED,
    verdicts.EQUIVALENT: PASSED,
    UNDECIDED: UNDECIDED,
    UNMEASURED: UNMEASURED,
}
_OF_AMOUNT = {MORE: REGRESSION, LESS: IMPROVED, ALIKE: PASSED}


def outcomes_of(comparison: Comparison) -> list[Outcome]:
    """List an outcome of time for every pair, and of memory and FLOPs if the base's value is known.

    If only the head's value is unknown, the outcome of a timed pair is `unmeasured`.
    """
    return [outcome for one in comparison.compared for outcome in _outcomes(one, comparison.control)]


def pair_name(case: Case) -> str:
    """A case in readable form, like `subject`, but with `steady` as the allocator that is not named."""
    if case.allocator == "steady":
        return subject(replace(case, allocator="default"))
    # The C library's allocator does not manage a GPU's memory, so it is not named there.
    return subject(case) + (" allocator=default" if case.allocator == "default" and case.device == "cpu" else "")


def _outcomes(one: Compared, control: str) -> Iterator[Outcome]:
    name = pair_name(one.head)
    yield _time(name, one, control)
    for quantity, amount, written in ((MEMORY, one.memory, units.size), (FLOPS, one.flops, units.count)):
        if amount.verdict != UNKNOWN and amount.was is not None and amount.now is not None:
            was, now = written(amount.was), written(amount.now)
            yield Outcome(name, quantity, _OF_AMOUNT[amount.verdict], was, now, _said(quantity, amount, was, now))
        elif amount.was is not None and one.time is not None:
            yield Outcome(name, quantity, UNMEASURED, written(amount.was), "", "known of the base, and not of the head")


def _time(name: str, one: Compared, control: str) -> Outcome:
    if one.time is None:
        # A pair that can never be measured is not the head's failure. But if nothing at all could be timed, nothing
        # passes.
        excused = one.is_excused and control != NONE
        return Outcome(name, TIME, UNDECIDED if excused else UNMEASURED, "", "", one.reason)
    verdict = UNMEASURED if is_disarmed(one, control) else _OF_TIME[one.verdict]
    reason = one.time.reason
    if verdict == UNDECIDED:
        reason = f"{reason}; {could_have_seen(one.time)}"
    return Outcome(name, TIME, verdict, "", ratio(one.time), f"{one.verdict}: {reason}")


def ratio(time: verdicts.Verdict) -> str:
    """The time ratio with its interval: `×1.052 (1.041 to 1.063)`. Empty without blocks."""
    found = time.evidence
    if not found.blocks:
        return ""
    if found.lo <= 0:
        return f"×{found.ratio:.3f}"
    return f"×{found.ratio:.3f} ({found.lo:.3f} to {found.hi:.3f})"


def could_have_seen(time: verdicts.Verdict) -> str:
    """A phrase that names the smallest slow-down this measurement would have detected."""
    least = time.smallest_detectable
    if least == float("inf"):
        return f"{time.blocks} blocks are too few to see anything"
    return f"a slow-down of {units.share(least)} would have been seen"


def _said(quantity: str, amount: Amount, was: str, now: str) -> str:
    if amount.verdict == ALIKE:
        return ""
    times = f" (×{amount.ratio:.3g})" if amount.ratio is not None else ""
    return f"{quantity} {was} → {now}{times}"
