"""The rules by which a gate judges counts, kernels, exponents and claims, and the exit status of all its outcomes."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.analysis.claims import REFUTED, RESOLUTION, UNDETERMINED, WIDEST, signed_exponent
from harness.case import Case
from harness.fit.laws import Range
from harness.gate.baseline import TIMED, Baseline, ClaimKept, FindingId, LawKept
from harness.gate.baseline_file import AXES
from harness.stats.paired_verdicts import UNDECIDED, UNMEASURED

PASSED = "passed"
REGRESSION = "regression"
IMPROVED = "improved"
# The worst first: the order in which outcomes are reported.
VERDICTS = (REGRESSION, UNMEASURED, UNDECIDED, IMPROVED, PASSED)

FINE, WORSE, NOT_MEASURED = 0, 1, 3


@dataclass(frozen=True)
class Outcome:
    """The outcome of one comparison that a gate makes.

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


def ordered_outcomes(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes with the worst verdict first. Those with the same verdict keep their order."""
    return sorted(outcomes, key=lambda outcome: VERDICTS.index(outcome.verdict))


def counted_outcomes(outcomes: Sequence[Outcome]) -> str:
    """`2 regressions, 1 unmeasured, 40 passed`, or `nothing was judged` if there are no outcomes."""
    numbers = Counter(outcome.verdict for outcome in outcomes)
    said = [f"{numbers[verdict]} {_plural(verdict, numbers[verdict])}" for verdict in VERDICTS if numbers[verdict]]
    return ", ".join(said) or "nothing was judged"


def _plural(verdict: str, number: int) -> str:
    return f"{verdict}s" if verdict == REGRESSION and number > 1 else verdict


# The rules: one function each for a count, a kernel, an exponent and a claim.

# Counts repeat exactly. So does peak memory, on one machine with one torch version; other versions round their buffers
# differently.
PEAK_TOLERANCE = 0.01
# Exponents of counts are exact, so the slack only covers rounding. An exponent of memory is read no more finely than a
# claim. An exponent of time has its own interval.
_SLACK = {"memory": RESOLUTION, "flops": 0.005, "depth": 0.005, TIMED: 0.0}
# Kernels that never write the n × n scores, or the intermediates of a recurrent step, to memory.
FUSED = ("flash", "efficient", "cudnn", "oneDNN")

_NOT_BEFORE = "no earlier value is known, so this one cannot be judged"

Finding = tuple[str, str]  # the verdict and its reason; the reason is empty if the numbers suffice


def judge_count(was: int | None, now: int | None, tolerance: float = 0.0) -> Finding | None:
    """Judge a count of a case; None if the count is unknown on both sides."""
    if was is None:
        return None if now is None else (UNDECIDED, _NOT_BEFORE)
    if now is None:
        return UNMEASURED, "it was known, and is not any more"
    if now > was * (1 + tolerance):
        return REGRESSION, ""
    return (IMPROVED if now < was * (1 - tolerance) else PASSED), ""


def judge_kernel(was: str | None, now: str | None) -> Finding | None:
    """Judge which kernel ran; None if that is unknown on both sides."""
    if was is None:
        return None if now is None else (UNDECIDED, _NOT_BEFORE)
    if now is None:
        return UNMEASURED, "which kernel ran was known, and is not any more"
    if now == was:
        return PASSED, ""
    if was in FUSED and now not in FUSED:
        return REGRESSION, f"fused kernel lost: {was} before, {now} now"
    if now in FUSED and was not in FUSED:
        return IMPROVED, f"a fused kernel runs: {was} before, {now} now"
    return UNDECIDED, f"another kernel runs: {was} before, {now} now"


def judge_exponent(metric: str, was: Range | None, now: Range | None, grown: bool, eased: bool) -> Finding | None:
    """Judge how a cost grows along an axis.

    Returns None if the baseline does not know the exponent. For an exact cost, this includes an interval wider than 2 ·
    `WIDEST`: every exponent of the same order would lie in it.

    `grown`: the cost itself increased for some case. `eased`: no cost increased, and none rises more from size to size.

    The exponent of an exact cost must lie in the baseline's interval. An exponent of time has an interval too: it is
    worse only if its whole interval lies above the baseline's.
    """
    if was is None or (metric != TIMED and was.hi - was.lo > 2 * WIDEST):
        return None
    if now is None:
        return UNMEASURED, "how it grows was known, and is not any more"
    slack = _SLACK[metric]
    if (now.lo if metric == TIMED else now.value) > was.hi + slack:
        # Only work that grows more slowly was removed, which is no regression.
        return (PASSED, "it is less at every size, and rises by no more") if eased else (REGRESSION, "")
    if (now.hi if metric == TIMED else now.value) < was.lo - slack:
        # Only work that grows more slowly was added, which is no improvement.
        return (PASSED, "it grows slower, and is more") if grown else (IMPROVED, "")
    return PASSED, ""


def judge_determined(was: LawKept, now: LawKept) -> Finding | None:
    """Check whether two cost models of time can be compared; None if they can."""
    for law, when in ((was, "in the baseline"), (now, "now")):
        if not law.determined:
            return UNDECIDED, f"the law of time is not determined {when}"
    return None


def judge_claim(was: ClaimKept, now: ClaimKept | None, of_time: bool) -> Finding:
    """Judge whether a theoretical claim is newly refuted."""
    if now is None:
        return UNMEASURED, "it is not claimed any more"
    said = f"{now.claimed} was {was.verdict}, is {now.verdict}"
    if was.verdict == now.verdict:
        return PASSED, ""
    if now.verdict == REFUTED:
        return REGRESSION, f"{said}: measured {now.measured or 'nothing'}"
    if now.verdict == UNDETERMINED and not of_time:
        return UNDECIDED, said
    return (IMPROVED if was.verdict == REFUTED else PASSED), said


def exponent_text(value: Range | None, bare: bool = False) -> str:
    """`1.00`, or `0.92 (0.66 to 1.39)` with an interval. `bare` leaves the interval out."""
    if value is None:
        return ""
    if bare or value.lo == value.hi:
        return signed_exponent(value.value)
    return f"{signed_exponent(value.value)} ({signed_exponent(value.lo)} to {signed_exponent(value.hi)})"


def growth(was: Mapping[str, LawKept], now: Mapping[str, LawKept]) -> dict[str, str]:
    """Map a metric to the change of its exponents, as in `; its exponent in n 1.00 → 2.00`.

    Only exponents that differ as printed are mentioned.
    """
    said: dict[str, str] = {}
    for metric in was.keys() & now.keys():
        for axis in AXES:
            before, after = (
                exponent_text(getattr(law, f"exponent_{axis}"), bare=True) for law in (was[metric], now[metric])
            )
            if before and after and before != after:
                said[metric] = f"{said.get(metric, '')}; its exponent in {axis} {before} → {after}"
    return said


def judge_law(
    name: FindingId, was: LawKept, now: LawKept | None, grown: bool, eased: Callable[[str], bool], note: str
) -> Iterator[Outcome]:
    """Yield an outcome for each axis along which the baseline knows how the cost grows.

    All cases that the cost model covers were measured again. If `now` is None, the only outcome is `unmeasured`.
    `judge_exponent` explains `grown` and, for each axis, `eased(axis)`.
    """
    metric = name.what
    if now is None:
        why = "it had a law, and has none any more"
        yield Outcome(name.subject, f"law of {metric}", UNMEASURED, was.law, "", f"{why}{note}")
        return
    open_question = judge_determined(was, now) if metric == TIMED else None
    for axis in AXES:
        before, after = (getattr(law, f"exponent_{axis}") for law in (was, now))
        found = judge_exponent(metric, before, after, grown, eased(axis))
        if found is None:
            continue
        verdict, why = open_question or found
        quantity, texts = f"exponent of {metric} in {axis}", (exponent_text(before), exponent_text(after))
        if verdict != PASSED and not why:
            laws = f"; the law was {was.law}, is {now.law}" if was.law != now.law else ""
            why = f"{quantity} {texts[0]} → {texts[1]}{laws}"
        yield Outcome(name.subject, quantity, verdict, *texts, f"{why}{note}" if why else "")


def judge_claims(
    was: Mapping[FindingId, ClaimKept], now: Mapping[FindingId, ClaimKept], names: Collection[FindingId], note: str
) -> Iterator[Outcome]:
    """Yield an outcome for each claim in `names`. All cases that a claim covers were measured again."""
    for name in names:
        before, after = was[name], now.get(name)
        verdict, why = judge_claim(before, after, name.what == TIMED)
        texts = before.verdict, after.verdict if after is not None else ""
        yield Outcome(name.subject, f"claim of {name.what}", verdict, *texts, f"{why}{note}" if why else "")


_COLUMN = {"memory": "peak_bytes", "flops": "flops", "depth": "depth"}
_AXIS = {"n": "seq_len", "d": "d_model"}


def no_longer_rises(was: Baseline, now: Baseline, cases: Sequence[Case], metric: str, axis: str) -> bool:
    """Whether no cost increased and no step to the next size along `axis` became larger.

    The exponent may still be larger: attention without its projections has only the n² term left. For time the answer
    is always False, because `check` compares no times.
    """
    if metric not in _COLUMN:
        return False
    costs = _costs(was, now, cases, _COLUMN[metric])
    rows: dict[Case, list[Case]] = {}
    for case in sorted(costs, key=lambda case: getattr(case, _AXIS[axis])):
        rows.setdefault(_without_axis(case, axis), []).append(case)
    return all(after <= before for before, after in costs.values()) and all(
        costs[large][1] - costs[small][1] <= costs[large][0] - costs[small][0]
        for row in rows.values()
        for small, large in pairwise(row)
    )


def _costs(was: Baseline, now: Baseline, cases: Sequence[Case], column: str) -> dict[Case, tuple[int, int]]:
    """(before, now) of each case for which both are known."""
    found = {}
    for case in cases:
        before, after = (getattr(of.cases[case], column) for of in (was, now))
        if before is not None and after is not None:
            found[case] = (before, after)
    return found


def _without_axis(case: Case, axis: str) -> Case:
    """A key that is equal for all cases that differ only along the axis."""
    return replace(case, seq_len=1) if axis == "n" else replace(case, d_model=1)
