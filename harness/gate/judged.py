"""The rules of `check`: whether one count, kernel, exponent or claim got worse. One function each."""

from harness.findings.claimed import READ_TO, REFUTED, UNDETERMINED, WIDEST, signed
from harness.gate.baseline import TIMED, ClaimKept, LawKept
from harness.gate.outcome import IMPROVED, PASSED, REGRESSION
from harness.scaling.law import Range
from harness.stats.paired.verdicts import UNDECIDED, UNMEASURED

# Counts repeat exactly. So does peak memory, on one machine with one torch version; other versions round their buffers
# differently.
PEAK_TOLERANCE = 0.01
# Exponents of counts are exact, so the slack only covers rounding. An exponent of memory is read no more finely than a
# claim. An exponent of time has its own interval.
_SLACK = {"memory": READ_TO, "flops": 0.005, "depth": 0.005, TIMED: 0.0}
# Kernels that never write the n × n scores, or the intermediates of a recurrent step, to memory.
FUSED = ("flash", "efficient", "cudnn", "oneDNN")

_NOT_BEFORE = "it was not known before: nothing to hold it against"

Found = tuple[str, str]  # the verdict and its reason; the reason is empty if the numbers suffice


def judge_count(was: int | None, now: int | None, tolerance: float = 0.0) -> Found | None:
    """Judge a count of a case; None if the count is unknown on both sides."""
    if was is None:
        return None if now is None else (UNDECIDED, _NOT_BEFORE)
    if now is None:
        return UNMEASURED, "it was known, and is not any more"
    if now > was * (1 + tolerance):
        return REGRESSION, ""
    return (IMPROVED if now < was * (1 - tolerance) else PASSED), ""


def judge_kernel(was: str | None, now: str | None) -> Found | None:
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


def judge_exponent(metric: str, was: Range | None, now: Range | None, grown: bool, eased: bool) -> Found | None:
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


def judge_determined(was: LawKept, now: LawKept) -> Found | None:
    """Check whether two cost models of time can be compared; None if they can."""
    for law, when in ((was, "in the baseline"), (now, "now")):
        if not law.determined:
            return UNDECIDED, f"the law of time is not determined {when}"
    return None


def judge_claim(was: ClaimKept, now: ClaimKept | None, of_time: bool) -> Found:
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
        return signed(value.value)
    return f"{signed(value.value)} ({signed(value.lo)} to {signed(value.hi)})"
