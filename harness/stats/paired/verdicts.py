"""The verdict of a comparison on each case. If an A/A control fails, no case is called slower, faster or equivalent."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.stats.paired.evidence import Evidence, evidence, smallest_detectable
from harness.stats.paired.multiplicity import discoveries
from harness.stats.paired.procedure import Blocks, Measured
from harness.stats.paired.rules import Rules

SLOWER, FASTER, EQUIVALENT, UNDECIDED, UNMEASURED = "slower", "faster", "equivalent", "undecided", "unmeasured"


@dataclass(frozen=True)
class Verdict:
    """One of the five verdicts on a case, its reason, and the evidence for it.

    If a case was measured twice, the evidence is that of the second measurement alone. The first one selected the case
    for its large change, so its estimate is biased. The interval agrees with the deciding test. It lies above the
    threshold if slower, and below the reciprocal of the threshold if faster. If the change was not confirmed, it does
    neither. The count of `blocks` includes both measurements.
    """

    verdict: str
    reason: str
    evidence: Evidence
    blocks: int
    smallest_detectable: float


@dataclass(frozen=True)
class Control:
    """The result of measuring a case against itself: whether it `differs`, or the `failure` that prevented it."""

    case: int
    differs: bool
    evidence: Evidence
    failure: str | None = None

    @property
    def held(self) -> bool:
        """Whether the control was measured and does not differ from itself."""
        return not self.differs and self.failure is None


def controls_of(measured: Measured, rules: Rules) -> list[Control]:
    """The result of each control. A control differs if either measurement would have called it slower or faster.

    The evidence is that of the measurement in which the control differed, and otherwise that of the first.
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
    """The reason why the comparison must not conclude anything; empty if it may.

    It may if no control differs from itself and at least one was measured.
    """
    if any(control.differs for control in controls):
        return "the A/A control failed"
    return "" if any(control.held for control in controls) else "the A/A control could not be measured"


def verdicts_of(measured: Measured, rules: Rules) -> list[Verdict]:
    """A verdict for every case. If the controls failed, no case is called slower, faster or equivalent."""
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
    """The error rate of intervals from the second measurement, chosen so that they agree with the test.

    Either end of the interval is a one-sided test. Each of `called` discoveries had to pass alpha · called / tested
    (Benjamini and Yekutieli 2005, "False discovery rate-adjusted multiple confidence intervals for selected
    parameters"). A case that is not a discovery fails that test as well.
    """
    return 2 * rules.alpha_again * max(called, 1) / tested


def _before(blocks: Blocks, rules: Rules) -> str:
    """The verdict on a flagged case by its first measurement: slower or faster."""
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
