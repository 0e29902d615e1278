"""Decide whether one side of a comparison is slower than the other, from paired blocks of several cases.

In a block, both sides meet the machine in the same state. Each round measures one block of every open case. Some
rounds in a row use the same fork servers: they are a generation. After certain numbers of generations (looks), a case
is tested, and closed if it is decided or hopeless. A case flagged as changed is measured a second time. The caller
supplies the blocks, so the procedure knows neither clocks nor layers. Simulations and resampling of recorded blocks
therefore run the same code as real comparisons.

Blocks of one generation share the memory layout of its fork servers, so they are not independent. The unit of the test
is therefore the mean of a generation. The exact signed-rank test assumes only that these means are independent and
symmetric about the true value. With identical code, the random order of the sides within a block makes them symmetric,
if new servers favour neither side. With different code, the noise of both sides must also have a similar shape. If
noise has two levels, bursts and drifts, a t-test needs many more blocks to be reliable.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.model import formatting
from harness.study.check.check_rules import Verdict

from .paired_evidence import Evidence, Rules, chance_of_decision, evidence_of, smallest_detectable


class BlockFailed(Exception):
    """No block of this case can be measured. The message gives the reason."""


@dataclass
class Blocks:
    """Log ratios of one case: from the first measurement, and from the second if the first flagged the case.

    `given_up`: the measurement that counts was stopped, because a decision was unlikely in the time left.
    """

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    flagged: bool = False
    failure: str | None = None
    given_up: bool = False


@dataclass
class MeasuredBlocks:
    """The blocks of all cases and of the controls, by case number."""

    cases: list[Blocks]
    controls: dict[int, Blocks]


# `(case, whether the block is of the control) -> log ratio`; raises BlockFailed.
TakeBlock = Callable[[int, bool], float]
_Key = tuple[int, bool]
# A case is given up if its probability of a decision is less.
_LEAST_CHANCE = 0.05
# The pace of a measurement is known after this many generations.
_PACE_KNOWN = 2


@dataclass(frozen=True)
class Standing:
    """How far a stage is: of its `cases`, the numbers of decided (or failed) ones and of those given up.

    `evidence` finds the evidence so far on each open case, by its number.
    """

    cases: int
    decided: int
    given_up: int
    evidence: Callable[[], Mapping[int, Evidence]]


class Host:
    """What `measure_blocks` asks of its caller between blocks. These defaults set no limit and show nothing.

    A stage is "first" or "again". Flagged cases are measured again, with new processes, in the second one.
    """

    def begin_round(self, stage: str, number: int) -> None:
        """A round begins; they are numbered from 1 in each stage."""

    def generations_left(self, stage: str, number: int) -> float:
        """How many more generations of `number` cases and controls fit into the time of the stage."""
        return float("inf")

    def end_round(self, stage: str, standing: Standing) -> None:
        """A round has ended."""


def measure_blocks(
    cases: int, controls: Sequence[int], take: TakeBlock, rules: Rules, seed: int, host: Host | None = None
) -> MeasuredBlocks:
    """Measure a number of cases, and the cases in `controls` against themselves.

    A stage ends after the round in which its time is up. That adds one unplanned look but skips at least one planned
    look. The number of looks therefore never exceeds that of the correction. Hopeless cases are given up only at
    planned looks, and before the first one, where nothing is tested.
    """
    draw = random.Random(seed)
    host = host or Host()
    measured = MeasuredBlocks([Blocks() for _ in range(cases)], {case: Blocks() for case in controls})
    _Stage("first", range(cases), measured, rules, host).measure(take, draw)
    first = {case: evidence_of(blocks.first, rules) for case, blocks in enumerate(measured.cases)}
    flagged = sorted(set.union(*_discoveries(first, rules.alpha).values()))
    for case in flagged:
        measured.cases[case].flagged = True
        measured.cases[case].given_up = False
    _Stage("again", flagged, measured, rules.again, host).measure(take, draw)
    return measured


class _Stage:
    """The first measurement, of all cases, or the second one, of the flagged `cases`. Both have all controls.

    A control is `open` while it is undecided and any case is open.
    """

    def __init__(self, name: str, cases: Sequence[int], measured: MeasuredBlocks, rules: Rules, host: Host) -> None:
        self._name, self._cases, self._rules, self._host = name, cases, rules, host
        self._blocks = {(case, False): measured.cases[case] for case in cases}
        self._blocks |= {(case, True): of_control for case, of_control in measured.controls.items()}
        self._open = [key for key, blocks in self._blocks.items() if blocks.failure is None]

    def measure(self, take: TakeBlock, draw: random.Random) -> None:
        """Measure every open case and control once per round, in a new random order. Close some at each look."""
        for number in range(1, self._rules.most_blocks + 1):
            if not self._open_cases() or (number > 1 and self._host.generations_left(self._name, 1) <= 0):
                return
            self._host.begin_round(self._name, number)
            for key in draw.sample(self._open, len(self._open)):
                try:
                    self._logs(key).append(take(*key))
                except BlockFailed as error:
                    self._blocks[key].failure = str(error)
            self._open = [key for key in self._open if self._blocks[key].failure is None]
            generation, part = divmod(number, self._rules.generation)
            if not part:
                self._end_generation(generation)
            self._host.end_round(self._name, self._standing())

    def _open_cases(self) -> list[_Key]:
        return [key for key in self._open if not key[1]]

    def _logs(self, key: _Key) -> list[float]:
        return getattr(self._blocks[key], self._name)

    def _evidence(self, key: _Key) -> Evidence:
        return evidence_of(self._logs(key), self._rules)

    def _end_generation(self, number: int) -> None:
        looks = self._rules.looks
        if number in looks:
            decided = self._decided()
            self._open = [key for key in self._open if key not in decided]
        if number in looks[:-1] or _PACE_KNOWN <= number < looks[0]:
            self._give_up_hopeless(number)

    def _decided(self) -> set[_Key]:
        """The cases and controls that are equivalent, or changed: later blocks of the others cannot alter that."""
        every = {key: self._evidence(key) for key in self._blocks}
        closed = {key for key, evidence in every.items() if evidence.p_equivalent <= self._rules.alpha}
        for control in (False, True):
            alike = {key[0]: evidence for key, evidence in every.items() if key[1] is control}
            changed = set.union(*_discoveries(alike, self._rules.alpha).values())
            closed |= {(case, control) for case in changed}
        return closed

    def _give_up_hopeless(self, generation: int) -> None:
        """Give up the least likely decision, the last case first, until the time suffices for all others."""
        while open_cases := self._open_cases():
            more = self._host.generations_left(self._name, len(self._open))
            chances = {key: self._chance(key, generation, more) for key in reversed(open_cases)}
            least_likely = min(chances, key=chances.__getitem__)
            if chances[least_likely] >= _LEAST_CHANCE:
                return
            self._blocks[least_likely].given_up = True
            self._open.remove(least_likely)

    def _chance(self, key: _Key, generation: int, more: float) -> float:
        """The probability that the case is decided after `more` generations."""
        if generation < self._rules.looks[0]:
            return float(generation + more >= self._rules.looks[0])
        return chance_of_decision(self._evidence(key), more, len(self._cases), self._rules)

    def _standing(self) -> Standing:
        open_cases = self._open_cases()
        given_up = sum(self._blocks[case, False].given_up for case in self._cases)
        decided = len(self._cases) - len(open_cases) - given_up
        evidence = lambda: {key[0]: self._evidence(key) for key in open_cases}  # noqa: E731
        return Standing(len(self._cases), decided, given_up, evidence)


def _discoveries(by_case: Mapping[int, Evidence], alpha: float) -> dict[Verdict, set[int]]:
    """The cases that are slower, and those that are faster.

    Benjamini and Hochberg 1995, "Controlling the false discovery rate". This corrects for testing many cases at once,
    so that few of the reported changes are due to chance. The expected share of false discoveries is at most `alpha`.
    If no case has changed, the probability of any discovery is at most `alpha`.
    """
    tests = {
        Verdict.WORSE: {case: evidence.p_slower for case, evidence in by_case.items()},
        Verdict.BETTER: {case: evidence.p_faster for case, evidence in by_case.items()},
    }
    discoveries = {}
    for side, p_values in tests.items():
        ranked = enumerate(sorted(p_values.values()), start=1)
        most = max((p for rank, p in ranked if p * len(p_values) <= alpha * rank), default=-1.0)
        discoveries[side] = {case for case, p in p_values.items() if p <= most}
    return discoveries


@dataclass(frozen=True)
class PairedResult:
    """The verdict on a case, its reason, and the evidence for it.

    If a case was measured twice, the evidence is that of the second measurement alone. The first one selected the case
    for its large change, so its estimate is biased. The interval of such a case agrees with the deciding test. It lies
    above the threshold if slower, and below the reciprocal of the threshold if faster. If the change was not confirmed,
    it does neither. The interval of a case measured once need not agree with the verdict, which is also corrected for
    the number of cases. The count of `blocks` includes both measurements.
    """

    verdict: Verdict
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


def controls_of(measured: MeasuredBlocks, rules: Rules) -> list[Control]:
    """The result of each control. A control differs if either measurement would have called it slower or faster.

    The evidence is that of the measurement in which the control differed, and otherwise that of the first.
    """
    shown: dict[int, Evidence] = {}
    failing: set[int] = set()
    for stage, its_rules in (("first", rules), ("again", rules.again)):
        by_case = {case: evidence_of(getattr(blocks, stage), its_rules) for case, blocks in measured.controls.items()}
        called = set.union(*_discoveries(by_case, its_rules.alpha).values()) - failing
        failing |= called
        shown |= by_case if stage == "first" else {case: by_case[case] for case in called}
    return [Control(case, case in failing, shown[case], blocks.failure) for case, blocks in measured.controls.items()]


def invalidated(controls: Sequence[Control]) -> str:
    """The reason why the comparison must not conclude anything; empty if it may.

    It may if no control differs from itself and at least one was measured.
    """
    if any(control.differs for control in controls):
        return "the A/A control failed"
    return "" if any(control.held for control in controls) else "the A/A control could not be measured"


def verdicts_of(measured: MeasuredBlocks, rules: Rules) -> list[PairedResult]:
    """A verdict for every case. If the controls failed, every case is unmeasured.

    The interval of a case that was measured again is chosen so that it agrees with the test. Either end of the interval
    is a one-sided test, and each discovery had to pass alpha · discoveries / tested cases (Benjamini and Yekutieli
    2005, "False discovery rate-adjusted multiple confidence intervals for selected parameters"). A case that is not a
    discovery fails that test as well.
    """
    why_not = invalidated(controls_of(measured, rules))
    again = {
        case: evidence_of(blocks.again, rules.again) for case, blocks in enumerate(measured.cases) if blocks.flagged
    }
    discoveries = _discoveries(again, rules.alpha_again)
    results = []
    for case, blocks in enumerate(measured.cases):
        deciding = shown = first = evidence_of(blocks.first, rules)
        tested, its_rules, side, confirmed = len(measured.cases), rules, None, False
        if blocks.flagged:
            side = Verdict.WORSE if deciding.p_slower <= rules.alpha else Verdict.BETTER
            deciding, tested, its_rules, confirmed = again[case], len(again), rules.again, case in discoveries[side]
            misses = 2 * rules.alpha_again * max(len(discoveries[side]), 1) / tested
            shown = evidence_of(blocks.again, its_rules, misses)
        verdict, reason = _verdict(blocks, side, confirmed, shown, its_rules)
        if why_not and verdict is not Verdict.UNMEASURED:
            verdict, reason = Verdict.UNMEASURED, f"{why_not}: it measured as {verdict.time}"
        least = smallest_detectable(deciding, tested, its_rules)
        if blocks.flagged:  # the second measurement may end with too few blocks to tell
            least = min(least, smallest_detectable(first, len(measured.cases), rules))
        results.append(PairedResult(verdict, reason, shown, len(blocks.first) + len(blocks.again), least))
    return results


def _verdict(
    blocks: Blocks, side: Verdict | None, confirmed: bool, shown: Evidence, rules: Rules
) -> tuple[Verdict, str]:
    """The verdict and its reason. `side` is the verdict of the first measurement on a flagged case."""
    if blocks.failure is not None:
        return Verdict.UNMEASURED, blocks.failure
    if side is not None:
        if confirmed:
            return side, f"by more than {100 * rules.threshold:g} %, and so again in new processes"
        why = "not confirmed in new processes"
        if blocks.given_up or len(blocks.again) < rules.fewest_blocks:
            why = "time ran out before new processes confirmed it"
        return Verdict.UNDECIDED, f"{side.time} at first, and {why}"
    if shown.p_equivalent <= rules.alpha:
        return Verdict.EQUIVALENT, f"within ±{100 * rules.threshold:g} %"
    number, likely = formatting.counted(shown.blocks, "block"), ""
    if shown.lo > 1:
        likely = "; probably slower"
    elif shown.hi < 1:
        likely = "; probably faster"
    if not blocks.given_up:
        sure = f"neither a change beyond {100 * rules.threshold:g} % nor equivalence is certain"
        limit = "blocks" if shown.blocks >= rules.most_blocks else "minutes"
        return Verdict.UNDECIDED, f"after {number}, {sure}{likely}; allow more {limit}="
    why = "a decision was unlikely in the time left"
    if shown.blocks < rules.fewest_blocks:
        why = f"the time does not suffice for a first decision at {rules.fewest_blocks}"
    return Verdict.UNDECIDED, f"given up after {number}: {why}{likely}; allow more minutes="
