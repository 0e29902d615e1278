"""Decide whether one side of a comparison is slower than the other, from paired blocks of several cases.

In a block, both sides meet the machine in the same state. Each round measures one block of every open case. After
certain numbers of blocks (looks), a case is tested, and closed if it is decided. A case flagged as changed is measured
a second time. The caller supplies the blocks, so the procedure knows neither clocks nor layers. Simulations and
resampling of recorded blocks therefore run the same code as real comparisons.

The test is the exact signed-rank test: Wilcoxon 1945, "Individual comparisons by ranking methods". It assumes only that
the value of a block is distributed symmetrically about the true value. This holds for log(B's time / A's time), under
any noise, if the order of the sides within a block is random. If noise has two levels, bursts and drifts, a t-test
needs many more blocks to be reliable.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri


class Verdict(Enum):
    """The conclusion about a side, or about a new measurement, compared with another. The worst comes first.

    Each has a word for times (`time`), for memory and FLOPs (`amount`), and for the outcomes of a gate (`outcome`).
    """

    WORSE = "slower", "more", "regression"
    UNMEASURED = "unmeasured", "unknown", "unmeasured"
    UNDECIDED = "undecided", "undecided", "undecided"
    BETTER = "faster", "less", "improved"
    EQUIVALENT = "equivalent", "equivalent", "passed"

    def __init__(self, time: str, amount: str, outcome: str) -> None:
        self.time, self.amount, self.outcome = time, amount, outcome


@dataclass(frozen=True)
class Rules:
    """The threshold, the error rates and the looks of a comparison.

    - The threshold, as a share (`threshold`). A change no larger than this does not matter.
    - The error rate (`alpha`). Among cases reported as changed, it bounds the share of those that have not changed by
      more than the threshold. It also bounds how often a case that has changed is called equivalent.
    - The error rate of the second measurement, that of flagged cases (`alpha_again`). A false result counts only if
      both measurements err: in either direction, that is at most one run in 200.
    - The numbers of blocks after which a case is tested, and stopped if it is decided (`looks`).
    """

    threshold: float = 0.03
    alpha: float = 0.05
    alpha_again: float = 0.1
    looks: tuple[int, ...] = (8, 12, 20, 36, 64, 120)

    @property
    def again(self) -> "Rules":
        """The rules of the second measurement."""
        return replace(self, alpha=self.alpha_again)

    @property
    def log_threshold(self) -> float:
        """The threshold as a log ratio, the same for slower and faster."""
        return math.log1p(self.threshold)

    @property
    def most_blocks(self) -> int:
        """The maximum number of blocks of a case in one measurement."""
        return self.looks[-1]


Floats = NDArray[np.float64]


def walsh_averages(values: Sequence[float]) -> Floats:
    """The N(N + 1)/2 averages (xᵢ + xⱼ)/2 with i ≤ j, of each pair of values and each value with itself, ascending.

    The statistic of the signed-rank test is the number of these averages above a value.
    """
    x = np.asarray(values, dtype=float)
    i, j = _number_of_pairs(len(x))
    return np.sort((x[i] + x[j]) / 2)


def p_value_above(averages: Floats, value: float) -> float:
    """The p-value of the hypothesis that the true value is at most `value`, from the Walsh averages above it.

    Averages equal to `value` do not count as above.
    """
    above = len(averages) - int(np.searchsorted(averages, value, side="right"))
    return float(_rank_tails(_number_of_values(averages))[above])


def p_value_below(averages: Floats, value: float) -> float:
    """The p-value of the hypothesis that the true value is at least `value`, from the Walsh averages below it."""
    return float(_rank_tails(_number_of_values(averages))[int(np.searchsorted(averages, value, side="left"))])


def pseudomedian(averages: Floats) -> float:
    """The Hodges–Lehmann estimate of the centre: the median of the Walsh averages.

    Hollander, Wolfe and Chicken 2014, "Nonparametric statistical methods", 3.1 to 3.3.
    """
    middle = len(averages) // 2  # the averages are sorted
    return float(averages[~middle] + averages[middle]) / 2


def signed_rank_interval(averages: Floats, alpha: float) -> tuple[float, float]:
    """A confidence interval for the true value at level 1 − `alpha` or higher; infinite with too few blocks."""
    tails = _rank_tails(_number_of_values(averages))
    # The largest number of averages that may lie outside the interval on one side.
    outside = len(averages) - int(np.argmax(tails <= alpha / 2)) if tails[-1] <= alpha / 2 else -1
    if outside < 0:
        return -math.inf, math.inf
    return float(averages[outside]), float(averages[-1 - outside])


def _number_of_values(averages: Floats) -> int:
    return round((math.sqrt(8 * len(averages) + 1) - 1) / 2)


@lru_cache
def _number_of_pairs(number: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(number)


@lru_cache
def _rank_tails(number: int) -> Floats:
    """P(W ≥ w) for w from 0 to N(N + 1)/2, where W is the sum of a random subset of the ranks 1 … N.

    Each rank is in the subset with probability ½.
    """
    counts = np.ones(1)
    for rank in range(1, number + 1):
        counts = np.concatenate([counts, np.zeros(rank)]) + np.concatenate([np.zeros(rank), counts])
    return np.minimum(np.cumsum(counts[::-1])[::-1] / 2.0**number, 1.0)


# Power of the smallest detectable change: a comparison detects it four times in five.
_POWER = 0.8


@dataclass(frozen=True)
class Evidence:
    """The evidence in the blocks of one case, from their log ratios.

    Each p-value is corrected for the maximum number of looks (Bonferroni). The confidence interval is corrected in the
    same way, so its error rate holds at every look.

    The p-values test null hypotheses about the ratio of B's time to A's:
    - `p_slower`: it is not above the threshold.
    - `p_faster`: it is not below the reciprocal of the threshold.
    - `p_equivalent`: it is not between the two (two one-sided tests: Schuirmann 1987).

    The estimate of the ratio is `ratio`, its interval `lo` to `hi`.
    """

    blocks: int
    p_slower: float
    p_faster: float
    p_equivalent: float
    ratio: float
    lo: float
    hi: float


def evidence_of(logs: Sequence[float], rules: Rules, misses: float | None = None) -> Evidence:
    """The evidence in `logs`, log(B's time / A's time) of each block. Without blocks, every p-value is 1.

    The error rate of the interval is `misses`, half of it at either end. The default is the alpha of the rules.
    """
    if not logs:
        return Evidence(0, 1.0, 1.0, 1.0, math.nan, 0.0, math.inf)
    averages, threshold, looks = walsh_averages(logs), rules.log_threshold, len(rules.looks)
    lo, hi = signed_rank_interval(averages, (rules.alpha if misses is None else misses) / looks)
    within = max(p_value_above(averages, -threshold), p_value_below(averages, threshold))
    return Evidence(
        blocks=len(logs),
        p_slower=min(1.0, looks * p_value_above(averages, threshold)),
        p_faster=min(1.0, looks * p_value_below(averages, -threshold)),
        p_equivalent=min(1.0, looks * within),
        ratio=math.exp(pseudomedian(averages)),
        lo=math.exp(lo),
        hi=math.exp(hi),
    )


def is_decided(found: Evidence, cases: int, rules: Rules) -> bool:
    """Whether no more blocks are needed: equivalent, or slower or faster whatever the results of other cases."""
    return min(found.p_slower, found.p_faster) <= rules.alpha / cases or found.p_equivalent <= rules.alpha


def smallest_detectable(found: Evidence, cases: int, rules: Rules) -> float:
    """The smallest slowdown, as a share, that blocks with this noise flag four times in five, before confirmation.

    It is infinite if even the maximum number of blocks cannot reach the p-value required for this number of cases.
    """
    if len(rules.looks) * 0.5**rules.most_blocks > rules.alpha / cases:
        return math.inf
    half = math.log(found.hi / found.lo) / 2 if found.lo > 0 else math.inf
    looks = len(rules.looks)
    # Convert the half-width of the interval to a standard error, then to the change that a test of all cases needs.
    error = half / -ndtri(rules.alpha / looks / 2)
    return math.expm1(rules.log_threshold + error * (ndtri(_POWER) - ndtri(rules.alpha / looks / cases)))


class BlockFailed(Exception):
    """No block of this case can be measured. The message gives the reason."""


@dataclass
class Blocks:
    """Log ratios of one case: from the first measurement, and from the second if the first flagged the case."""

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    flagged: bool = False
    failure: str | None = None


@dataclass
class MeasuredBlocks:
    """The blocks of all cases and of the controls, by case number."""

    cases: list[Blocks]
    controls: dict[int, Blocks]


# `(case, whether the block is of the control) -> log ratio`; raises BlockFailed.
TakeBlock = Callable[[int, bool], float]


def measure_blocks(
    cases: int,
    controls: Sequence[int],
    take: TakeBlock,
    rules: Rules,
    seed: int = 0,
    between: Callable[[str, int], None] = lambda stage, number: None,
    is_over: Callable[[str], bool] = lambda stage: False,
) -> MeasuredBlocks:
    """Measure a number of cases, and the cases in `controls` against themselves.

    Before each round, `between` is called with the stage, "first" or "again", and the round's number from 1. Flagged
    cases are measured again in the second stage, for which `between` is to start new processes.

    After each round, `is_over` is called with the stage and may end it. Stopping early adds one unplanned look but
    skips at least one planned look. The number of looks therefore never exceeds that of the correction.
    """
    draw = random.Random(seed)
    measured = MeasuredBlocks([Blocks() for _ in range(cases)], {case: Blocks() for case in controls})

    def measure_stage(stage: str, chosen: Sequence[int], rules: Rules) -> None:
        """Measure every open case and control once per round, in a new random order. Close decided ones at each look.

        A control is open while it is undecided and any case is open.
        """
        blocks = {(case, False): measured.cases[case] for case in chosen}
        blocks |= {(case, True): of_control for case, of_control in measured.controls.items()}
        waiting = [key for key, one in blocks.items() if one.failure is None]

        def is_decided_so_far(case: int, control: bool) -> bool:
            found = evidence_of(getattr(blocks[case, control], stage), rules)
            return is_decided(found, len(measured.controls if control else chosen), rules)

        for number in range(1, rules.most_blocks + 1):
            if all(control for _, control in waiting) or (number > 1 and is_over(stage)):
                return
            between(stage, number)
            for key in draw.sample(waiting, len(waiting)):
                try:
                    getattr(blocks[key], stage).append(take(*key))
                except BlockFailed as error:
                    blocks[key].failure = str(error)
            waiting = [key for key in waiting if blocks[key].failure is None]
            if number in rules.looks:
                waiting = [key for key in waiting if not is_decided_so_far(*key)]

    measure_stage("first", range(cases), rules)
    first = {case: evidence_of(blocks.first, rules) for case, blocks in enumerate(measured.cases)}
    flagged = sorted(set.union(*_discoveries(first, rules.alpha).values()))
    for case in flagged:
        measured.cases[case].flagged = True
    measure_stage("again", flagged, rules.again)
    return measured


def _discoveries(found: Mapping[int, Evidence], alpha: float) -> dict[Verdict, set[int]]:
    """The cases that are slower, and those that are faster.

    Benjamini and Hochberg 1995, "Controlling the false discovery rate". This corrects for testing many cases at once,
    so that few of the reported changes are due to chance. The expected share of false discoveries is at most `alpha`.
    If no case has changed, the probability of any discovery is at most `alpha`.
    """
    from scipy.stats import false_discovery_control  # here: only a comparison needs it, and it takes half a second

    tests = {
        Verdict.WORSE: [evidence.p_slower for evidence in found.values()],
        Verdict.BETTER: [evidence.p_faster for evidence in found.values()],
    }
    return {side: set(compress(found, false_discovery_control(p) <= alpha if p else ())) for side, p in tests.items()}


@dataclass(frozen=True)
class PairedResult:
    """The verdict on a case, its reason, and the evidence for it.

    If a case was measured twice, the evidence is that of the second measurement alone. The first one selected the case
    for its large change, so its estimate is biased. The interval agrees with the deciding test. It lies above the
    threshold if slower, and below the reciprocal of the threshold if faster. If the change was not confirmed, it does
    neither. The count of `blocks` includes both measurements.
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
    for stage in ("first", "again"):
        found = {case: evidence_of(getattr(blocks, stage), rules) for case, blocks in measured.controls.items()}
        called = set.union(*_discoveries(found, rules.alpha).values()) - failing
        failing |= called
        shown |= found if stage == "first" else {case: found[case] for case in called}
    return [Control(case, case in failing, shown[case], blocks.failure) for case, blocks in measured.controls.items()]


def invalidated(controls: Sequence[Control]) -> str:
    """The reason why the comparison must not conclude anything; empty if it may.

    It may if no control differs from itself and at least one was measured.
    """
    if any(control.differs for control in controls):
        return "the A/A control failed"
    return "" if any(control.held for control in controls) else "the A/A control could not be measured"


def verdicts_of(measured: MeasuredBlocks, rules: Rules) -> list[PairedResult]:
    """A verdict for every case. If the controls failed, no case is called slower, faster or equivalent.

    The interval of a case that was measured again is chosen so that it agrees with the test. Either end of the interval
    is a one-sided test, and each discovery had to pass alpha · discoveries / tested cases (Benjamini and Yekutieli
    2005, "False discovery rate-adjusted multiple confidence intervals for selected parameters"). A case that is not a
    discovery fails that test as well.
    """
    why_not = invalidated(controls_of(measured, rules))
    again = {case: evidence_of(one.again, rules.again) for case, one in enumerate(measured.cases) if one.flagged}
    discoveries = _discoveries(again, rules.alpha_again)
    results = []
    for case, blocks in enumerate(measured.cases):
        own = shown = evidence_of(blocks.first, rules)
        tested, its_rules, side, confirmed = len(measured.cases), rules, None, False
        if blocks.flagged:
            side = Verdict.WORSE if own.p_slower <= rules.alpha else Verdict.BETTER
            own, tested, its_rules, confirmed = again[case], len(again), rules.again, case in discoveries[side]
            misses = 2 * rules.alpha_again * max(len(discoveries[side]), 1) / tested
            shown = evidence_of(blocks.again, rules, misses)
        verdict, reason = _verdict(blocks, side, confirmed, shown, rules)
        if why_not and verdict is not Verdict.UNMEASURED:
            verdict, reason = Verdict.UNDECIDED, f"{why_not}: it measured as {verdict.time}"
        least = smallest_detectable(own, tested, its_rules)
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
        why = "not so in new processes"
        if len(blocks.again) < rules.looks[0]:
            why = "time was up before new processes could tell"
        return Verdict.UNDECIDED, f"{side.time} at first, and {why}"
    if shown.p_equivalent <= rules.alpha:
        return Verdict.EQUIVALENT, f"within ±{100 * rules.threshold:g} %"
    number = f"{shown.blocks} block{'s' if shown.blocks != 1 else ''}"
    return Verdict.UNDECIDED, f"after {number} its interval is neither within ±{100 * rules.threshold:g} % nor beyond"
