"""The rules by which a gate judges counts, kernels, exponents and claims, and the exit status of all its outcomes."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from harness.core.model import own_axes
from harness.core.model.layer_options import without
from harness.core.model.sweep_axes import LETTERS, Case
from harness.study.claims.claim_rules import REFUTED, RESOLUTION, UNDETERMINED
from harness.study.laws.laws import WIDEST, Range, exponent_text, signed_exponent

from .baseline import TIMED, Baseline, ClaimKept, FindingId, LawKept


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
class Outcome:
    """The outcome of one comparison that a gate makes.

    `subject` names the case or group, with its impl before the first space (`attention.fused n=2048 d=128 h=8`). The
    `quantity` is what was judged about it (`peak memory`).

    The texts `was` and `now` are the expected and the measured value, with units; an absent value is empty. The
    `reason` is one sentence, or empty if the outcome passed without comment.
    """

    subject: str
    quantity: str
    verdict: Verdict
    was: str
    now: str
    reason: str

    @property
    def impl(self) -> str:
        """The layer's name: the subject up to its first space."""
        return self.subject.partition(" ")[0]


def exit_status(outcomes: Iterable[Outcome]) -> int:
    """1 if anything got worse, else 3 if anything or everything was not measured, else 0."""
    verdicts = {outcome.verdict for outcome in outcomes}
    if Verdict.WORSE in verdicts:
        return 1
    return 3 if Verdict.UNMEASURED in verdicts or not verdicts else 0


def ordered_outcomes(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes with the worst verdict first. Those with the same verdict keep their order."""
    return sorted(outcomes, key=lambda outcome: list(Verdict).index(outcome.verdict))


def counted_outcomes(outcomes: Sequence[Outcome]) -> str:
    """`2 regressions, 1 unmeasured, 40 passed`, or `nothing was judged` if there are no outcomes."""
    numbers = Counter(outcome.verdict for outcome in outcomes)
    counts = [f"{numbers[verdict]} {verdict.outcome}" for verdict in Verdict if numbers[verdict]]
    if numbers[Verdict.WORSE] > 1:
        counts[0] += "s"
    return ", ".join(counts) or "nothing was judged"


# Counts repeat exactly. So does peak memory, on one machine with one torch version; other versions round their buffers
# differently.
PEAK_TOLERANCE = 0.01
# Exponents of counts are exact, so the slack only covers rounding. An exponent of memory is read no more finely than a
# claim. An exponent of time has its own interval.
_SLACK = {"memory": RESOLUTION, "flops": 0.005, "depth": 0.005, TIMED: 0.0}
# Kernels that never write the n × n scores, or the intermediates of a recurrent step, to memory.
FUSED = ("flash", "efficient", "cudnn", "oneDNN")

_EASED = "it is less at every size, and rises by no more"
Finding = tuple[Verdict, str]  # the verdict and its reason; the reason is empty if the numbers suffice


def judge_count(column: str, was: int | None, now: int | None) -> Finding | None:
    """Judge a count of a case by its column in `summary.csv`; None if the count is unknown on both sides."""
    if was is None or now is None:
        return None if was is now else _judge_unknown(was, now, "it was known, and is not any more")
    tolerance = PEAK_TOLERANCE if column == "peak_bytes" else 0.0
    if now > was * (1 + tolerance):
        return Verdict.WORSE, ""
    return (Verdict.BETTER if now < was * (1 - tolerance) else Verdict.EQUIVALENT), ""


# Errors repeat exactly on one machine. Another processor adds in another order.
ERROR_FACTOR = 4.0
# A smaller error is none: an eighth of the distance between two numbers.
_NO_ERROR = {"float64": 2.0**-55, "float32": 2.0**-26, "float16": 2.0**-13, "bfloat16": 2.0**-10}


def judge_error(dtype: str, was: float | None, now: float | None, factor: float) -> Finding | None:
    """Judge the error of an output or a gradient: it must not grow by more than the factor; None if it is unknown.

    It is undecided if the error is known on one side, since a reference may need more memory than a machine has.
    """
    if was is None:
        return None if now is None else _judge_unknown(was, now, "")
    if now is None:
        return Verdict.UNDECIDED, "it was known, and is not any more"
    was, now = max(was, _NO_ERROR[dtype]), max(now, _NO_ERROR[dtype])
    if now > factor * was:
        return Verdict.WORSE, ""
    return (Verdict.BETTER if factor * now < was else Verdict.EQUIVALENT), ""


def judge_kernel(was: str | None, now: str | None) -> Finding | None:
    """Judge which kernel ran; None if that is unknown on both sides."""
    if was is None or now is None:
        return None if was is now else _judge_unknown(was, now, "which kernel ran was known, and is not any more")
    if now == was:
        return Verdict.EQUIVALENT, ""
    change = f"{was} before, {now} now"
    if was in FUSED and now not in FUSED:
        return Verdict.WORSE, f"fused kernel lost: {change}"
    if now in FUSED and was not in FUSED:
        return Verdict.BETTER, f"a fused kernel runs: {change}"
    return Verdict.UNDECIDED, f"another kernel runs: {change}"


def _judge_unknown(was: object, now: object, lost: str) -> Finding:
    """Judge a value that is known on one side."""
    if was is not None:
        return Verdict.UNMEASURED, lost
    return Verdict.UNDECIDED, "no earlier value is known, so this one cannot be judged"


def judge_exponent(metric: str, was: Range, now: Range | None, grown: bool, eased: bool) -> Finding | None:
    """Judge how a cost grows along an axis.

    An exact cost whose interval is wider than 2 · `WIDEST` is undecided: every exponent of the same order would lie in
    it. Returns None if such a cost has eased.

    `grown`: a case is worse. `eased`: no exact cost increased, and none rises more from size to size.

    The exponent of an exact cost must lie in the baseline's interval. An exponent of time has an interval too: it is
    worse only if its whole interval lies above the baseline's.
    """
    if metric != TIMED and was.hi - was.lo > 2 * WIDEST:
        return None if eased else (Verdict.UNDECIDED, "")
    if not now:
        return Verdict.UNMEASURED, "how it grows was known, and is not any more"
    lo, hi = (now.lo, now.hi) if metric == TIMED else (now.value, now.value)
    if lo > was.hi + _SLACK[metric]:
        # Only work that grows more slowly was removed, which is no regression.
        return (Verdict.EQUIVALENT, _EASED) if eased else (Verdict.WORSE, "")
    if hi < was.lo - _SLACK[metric]:
        # Only work that grows more slowly was added, which is no improvement.
        return (Verdict.EQUIVALENT, "it grows slower, and is more") if grown else (Verdict.BETTER, "")
    return Verdict.EQUIVALENT, ""


def judge_claim(was: ClaimKept | None, now: ClaimKept | None) -> Finding:
    """Judge whether a theoretical claim is newly refuted."""
    if not (was and now):
        return _judge_unknown(was, now, "it is not claimed any more, or not over these axes")
    of_another = f"{now.claimed} " if now.claimed != was.claimed else ""
    change = f"{was.claimed} was {was.verdict}, {of_another}is {now.verdict}"
    if was.verdict == now.verdict:
        return Verdict.EQUIVALENT, ""
    if now.verdict == REFUTED:
        return Verdict.WORSE, f"{change}: measured {now.measured or 'nothing'}"
    if now.verdict == UNDETERMINED:
        return Verdict.UNDECIDED, change
    return (Verdict.BETTER if was.verdict == REFUTED else Verdict.EQUIVALENT), change


def growth(was: Mapping[str, LawKept], now: Mapping[str, LawKept]) -> dict[str, str]:
    """Map a metric to the change of its exponents, as in `; its exponent in n 1.00 → 2.00`.

    Only exponents that differ as printed are mentioned. That of an undetermined law is a question mark.
    """
    changes = dict[str, str]()
    for metric in was.keys() & now.keys():
        for axis in was[metric].axes:
            sides = [(law, law.exponent(axis)) for law in (was[metric], now[metric])]
            texts = [signed_exponent(of.value) if law.determined else "?" for law, of in sides if of]
            if len(set(texts)) == 2:
                changes[metric] = f"{changes.get(metric, '')}; its exponent in {axis} {' → '.join(texts)}"
    return changes


# The signs of the powers 1 to 4.
_POWERS = " ²³⁴"


def _growth(law: str, axis: str) -> tuple[int, bool]:
    """The power of an axis, and whether log n is a factor, in the fastest-growing term in the text of a law."""
    factors = re.findall(rf"(?<![A-Za-z0-9/])(log )?{axis}(?![A-Za-z])([²³⁴]?)(·log n)?", law)
    growths = ((0, True) if log else (1 + _POWERS.index(sign or " "), bool(times)) for log, sign, times in factors)
    return max(growths, default=(0, False))


def judge_law(
    name: FindingId, was: LawKept | None, now: LawKept | None, grown: bool, eased: Callable[[str], bool], note: str
) -> Iterator[Outcome]:
    """Yield an outcome for each axis along which the baseline knows how the cost grows.

    All cases that the cost model covers were measured again. If one of both is None, the only outcome says so.
    `judge_exponent` explains `grown` and, for each axis, `eased(axis)`. A time is judged only if both its cost models
    are determined, and an exact cost without them only if the intervals of its exponents are apart, or it has eased.
    """
    metric = name.what
    if not (was and now):
        verdict, why = _judge_unknown(was, now, "it had a law, and has none any more")
        law_was, law_now = (law.law if law else "" for law in (was, now))
        yield Outcome(name.subject, f"law of {metric}", verdict, law_was, law_now, f"{why}{note}")
        return
    is_time = metric == TIMED
    sides = (was, "in the baseline"), (now, "now")
    vague = [when for law, when in sides if not (law.determined and (law.exact or is_time))]
    for axis in was.axes:
        before, after = was.exponent(axis), now.exponent(axis)
        is_eased = not is_time and eased(axis)
        if not (before and (finding := judge_exponent(metric, before, after, grown, is_eased))):
            continue
        verdict, why = finding
        if is_time and after and verdict is Verdict.WORSE and after.lo <= max(_growth(was.law, axis)):
            verdict, why = Verdict.UNDECIDED, f"its fastest term takes more, or the others less: the law was {was.law}"
        is_open = after and before.lo <= after.hi and after.lo <= before.hi
        may_rise = after and not is_eased and after.hi > before.hi + _SLACK[metric]
        if vague and (is_time or why == _EASED or (is_open and (may_rise or verdict is not Verdict.EQUIVALENT))):
            verdict, why = Verdict.UNDECIDED, f"the law of {metric} is not determined {vague[0]}"
        elif not (vague or is_time or verdict is Verdict.WORSE) and _growth(now.law, axis) > _growth(was.law, axis):
            verdict, why = Verdict.WORSE, f"it changes its scaling: the law was {was.law}, is {now.law}"
        quantity, texts = f"exponent of {metric} in {axis}", (exponent_text(before), exponent_text(after))
        if verdict is not Verdict.EQUIVALENT and not why:
            laws = f"; the law was {was.law}, is {now.law}" if was.law != now.law and not vague else ""
            why = f"{quantity} {texts[0]} → {texts[1]}{laws}"
        yield Outcome(name.subject, quantity, verdict, *texts, f"{why}{note}" if why else "")


def judge_claims(
    was: Mapping[FindingId, ClaimKept],
    now: Mapping[FindingId, ClaimKept],
    is_judged: Callable[[FindingId], bool],
    note: str,
) -> Iterator[Outcome]:
    """Yield an outcome for each claim that is judged. All cases that such a claim covers were measured again."""
    for name in filter(is_judged, {**was, **now}):
        before, after = was.get(name), now.get(name)
        verdict, why = judge_claim(before, after)
        texts = before.verdict if before else "", after.verdict if after else ""
        yield Outcome(name.subject, f"claim of {name.what}", verdict, *texts, f"{why}{note}" if why else "")


def _size_along(of: Baseline, case: Case, axis: str) -> tuple[float, Case]:
    """The size of a case along an axis, and the case without that size."""
    if axis in LETTERS:
        return getattr(case, LETTERS[axis]), case.at(LETTERS[axis], 1)
    text = of.cases[case].own_axes
    name, sizes = own_axes.names_of_letters([text])[axis], dict(own_axes.own_size(text, case.options))
    stated = own_axes.stated_options(text, case.options)
    return sizes[axis], replace(case, options=without(stated, (name,)))


def no_longer_rises(was: Baseline, now: Baseline, cases: Sequence[Case], column: str, axis: str) -> bool:
    """Whether no cost in the column increased and no step to the next size along `axis` became larger.

    The exponent may still be larger: attention without its projections has only the n² term left.
    """
    # What each case costs less than before. All cases that differ only along the axis have the same key.
    saved: dict[Case, list[int]] = {}
    for case in sorted(cases, key=lambda case: _size_along(was, case, axis)[0]):
        before, after = (of.cases[case].count(column) for of in (was, now))
        if before is not None and after is not None:
            saved.setdefault(_size_along(was, case, axis)[1], []).append(before - after)
    return all(min(row) >= 0 and sorted(row) == row for row in saved.values())
