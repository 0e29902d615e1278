"""A comparison in the words of every gate: what is slower or takes more is a regression."""

from collections.abc import Iterator
from dataclasses import replace

from harness.case import Case
from harness.gate.compared import ALIKE, LESS, MORE, NONE, UNKNOWN, Amount, Compared, Comparison, is_disarmed
from harness.gate.keyed import subject
from harness.gate.outcome import IMPROVED, PASSED, REGRESSION, UNDECIDED, UNMEASURED, Outcome
from harness.report import units
from harness.stats.paired import verdicts

TIME, MEMORY, FLOPS = "time", "peak memory", "flops"
_OF_TIME = {
    verdicts.SLOWER: REGRESSION,
    verdicts.FASTER: IMPROVED,
    verdicts.EQUIVALENT: PASSED,
    verdicts.UNDECIDED: UNDECIDED,
    verdicts.UNMEASURED: UNMEASURED,
}
_OF_AMOUNT = {MORE: REGRESSION, LESS: IMPROVED, ALIKE: PASSED}


def outcomes_of(comparison: Comparison) -> list[Outcome]:
    """An outcome of time for every pair, and of memory and FLOPs where they are known of the base."""
    return [outcome for one in comparison.compared for outcome in _outcomes(one, comparison.control)]


def pair_name(case: Case) -> str:
    """A case as it is read, as `subject`, but that here it is `steady` that goes without saying."""
    if case.allocator == "steady":
        return subject(replace(case, allocator="default"))
    # A GPU's memory is not the C library's.
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
        # What never could be is no failure of the head's; but where nothing at all could be timed, nothing passes.
        excused = one.is_excused and control != NONE
        return Outcome(name, TIME, UNDECIDED if excused else UNMEASURED, "", "", one.reason)
    verdict = UNMEASURED if is_disarmed(one, control) else _OF_TIME[one.verdict]
    reason = one.time.reason
    if verdict == UNDECIDED:
        reason = f"{reason}; {could_have_seen(one.time)}"
    return Outcome(name, TIME, verdict, "", ratio(one.time), f"{one.verdict}: {reason}")


def ratio(time: verdicts.Verdict) -> str:
    """`×1.052 (1.041 to 1.063)`."""
    found = time.evidence
    if not found.blocks:
        return ""
    if found.lo <= 0:
        return f"×{found.ratio:.3f}"
    return f"×{found.ratio:.3f} ({found.lo:.3f} to {found.hi:.3f})"


def could_have_seen(time: verdicts.Verdict) -> str:
    """How small a slow-down would have been seen."""
    least = time.smallest_detectable
    if least == float("inf"):
        return f"{time.blocks} blocks are too few to see anything"
    return f"a slow-down of {units.share(least)} would have been seen"


def _said(quantity: str, amount: Amount, was: str, now: str) -> str:
    if amount.verdict == ALIKE:
        return ""
    times = f" (×{amount.ratio:.3g})" if amount.ratio is not None else ""
    return f"{quantity} {was} → {now}{times}"
