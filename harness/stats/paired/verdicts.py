"""What a comparison concludes of each case, and whether it may: an A/A control that fails disarms it."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.stats.paired.evidence import Evidence, evidence, smallest_detectable
from harness.stats.paired.multiplicity import discoveries
from harness.stats.paired.procedure import Blocks, Measured
from harness.stats.paired.rules import Rules

SLOWER, FASTER, EQUIVALENT, UNDECIDED, UNMEASURED = "slower", "faster", "equivalent", "undecided", "unmeasured"


@dataclass(frozen=True)
class Verdict:
    """Of one case: one of the five, why, and the evidence that it rests on.

    The evidence of a case that was measured a second time is that of the second time alone: the first time chose it
    for being large. Its interval is that of the test which decided: above the floor if it is slower, below if faster,
    and not so if that was not confirmed. `blocks` counts those of both.
    """

    verdict: str
    reason: str
    evidence: Evidence
    blocks: int
    smallest_detectable: float


@dataclass(frozen=True)
class Control:
    """What came of measuring a case against itself: whether it `differs`; `failure` says why that could not be done."""

    case: int
    differs: bool
    evidence: Evidence
    failure: str | None = None

    @property
    def held(self) -> bool:
        """Whether it was measured, and came out as itself."""
        return not self.differs and self.failure is None


def controls_of(measured: Measured, rules: Rules) -> list[Control]:
    """Of each control; it holds unless it would have been called slower or faster, the first time or the second.

    The evidence is of the time that it did not hold, or of the first.
    """
    shown: dict[int, Evidence] = {}
    failing: set[int] = set()
    for stage in ("first", "again"):
        found = {case: evidence(getattr(blocks, stage), rules) for case, blocks in measured.controls.items()}
        sides = [discoveries([getattr(one, side) for one in found.values()], rules.alpha) for side in (SLOWER, FASTER)]
        called = {case for case, *of_sides in zip(found, *sides, strict=True) if any(of_sides)} - failing
        failing |= called
        shown |= found if stage == "first" else {case: found[case] for case in called}
    return [Control(case, case in failing, shown[case], blocks.failure) for case, blocks in measured.controls.items()]


def disarmed(controls: Sequence[Control]) -> str:
    """Why nothing may be concluded; empty where it may: no control differs from itself, and some was measured."""
    if any(control.differs for control in controls):
        return "the A/A control failed"
    return "" if any(control.held for control in controls) else "the A/A control could not be measured"


def verdicts_of(measured: Measured, rules: Rules) -> list[Verdict]:
    """A verdict for every case. Where a control has failed nothing is called slower, faster or equivalent."""
    why_not = disarmed(controls_of(measured, rules))
    again = [number for number, blocks in enumerate(measured.cases) if blocks.flagged]
    second = [evidence(measured.cases[number].again, rules) for number in again]
    confirmed = {
        SLOWER: dict(zip(again, discoveries([one.slower for one in second], rules.alpha_again), strict=True)),
        FASTER: dict(zip(again, discoveries([one.faster for one in second], rules.alpha_again), strict=True)),
    }
    found = []
    for number, blocks in enumerate(measured.cases):
        own = evidence(blocks.again, rules.again) if blocks.flagged else evidence(blocks.first, rules)
        shown = own
        if blocks.flagged:
            called = sum(confirmed[_before(blocks, rules)].values())
            shown = evidence(blocks.again, rules, _misses(called, len(again), rules))
        verdict, reason = _verdict(blocks, {side for side, of in confirmed.items() if of.get(number)}, shown, rules)
        if why_not and verdict != UNMEASURED:
            verdict, reason = UNDECIDED, f"{why_not}: it measured as {verdict}"
        asked = (len(again), rules.again) if blocks.flagged else (len(measured.cases), rules)
        least = smallest_detectable(own, *asked)
        found.append(Verdict(verdict, reason, shown, len(blocks.first) + len(blocks.again), least))
    return found


def _misses(called: int, tested: int, rules: Rules) -> float:
    """How often the interval may miss of what was measured a second time, so that it says what the test said.

    Either end is a one-sided test. Of so many called, each had to pass that share of alpha (Benjamini and Yekutieli
    2005, "False discovery rate-adjusted multiple confidence intervals for selected parameters"); who was not called
    does not pass it either.
    """
    return 2 * rules.alpha_again * max(called, 1) / tested


def _before(blocks: Blocks, rules: Rules) -> str:
    """What a flagged case was the first time."""
    return SLOWER if evidence(blocks.first, rules).slower <= rules.alpha else FASTER


def _verdict(blocks: Blocks, confirmed: set[str], shown: Evidence, rules: Rules) -> tuple[str, str]:
    if blocks.failure is not None:
        return UNMEASURED, blocks.failure
    if blocks.flagged:
        before = _before(blocks, rules)
        if before in confirmed:
            return before, f"by more than {100 * rules.floor:g} %, and so again in new processes"
        if len(blocks.again) < rules.looks[0]:
            return UNDECIDED, f"{before} at first, and time was up before new processes could tell"
        return UNDECIDED, f"{before} at first, and not so in new processes"
    if shown.equivalent <= rules.alpha:
        return EQUIVALENT, f"within ±{100 * rules.floor:g} %"
    number = f"{shown.blocks} block{'s' if shown.blocks != 1 else ''}"
    return UNDECIDED, f"after {number} its interval is neither within ±{100 * rules.floor:g} % nor beyond"
