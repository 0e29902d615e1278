"""Whether one number, kernel or exponent got worse than it was: the rules of `check`, a function each."""

from harness.findings.claimed import READ_TO, REFUTED, UNDETERMINED, WIDEST, signed
from harness.gate.baseline import TIMED, ClaimKept, LawKept
from harness.gate.outcome import IMPROVED, PASSED, REGRESSION, UNDECIDED, UNMEASURED
from harness.scaling.law import Range

# Counts repeat to the last digit. A peak does too, on one machine with one torch; other versions round their buffers.
PEAK_TOLERANCE = 0.01
# An exponent of counts is known exactly: so much is left to rounding. That of memory is read no finer than a claim is;
# that of time has an interval of its own.
_SLACK = {"memory": READ_TO, "flops": 0.005, "depth": 0.005, TIMED: 0.0}
# Kernels that never write the n × n scores, or a step's intermediates, to memory.
FUSED = ("flash", "efficient", "cudnn", "oneDNN")

_NOT_BEFORE = "it was not known before: nothing to hold it against"

Found = tuple[str, str]  # verdict and why, empty where the numbers say it


def judge_count(was: int | None, now: int | None, tolerance: float = 0.0) -> Found | None:
    """A fact of a case; None where nothing is to be judged."""
    if was is None:
        return None if now is None else (UNDECIDED, _NOT_BEFORE)
    if now is None:
        return UNMEASURED, "it was known, and is not any more"
    if now > was * (1 + tolerance):
        return REGRESSION, ""
    return (IMPROVED if now < was * (1 - tolerance) else PASSED), ""


def judge_kernel(was: str | None, now: str | None) -> Found | None:
    """Which kernel ran."""
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
    """How a cost grows along an axis; None where that was not known, or to an order at most: all would lie in that.

    `grown`: whether the cost itself got worse somewhere; `eased`: whether it is nowhere more nor rises by more.

    An exact cost's exponent must lie in the interval that it lay in. One of time has an interval itself: it is worse
    only where that lies wholly above.
    """
    if was is None or (metric != TIMED and was.hi - was.lo > 2 * WIDEST):
        return None
    if now is None:
        return UNMEASURED, "how it grows was known, and is not any more"
    slack = _SLACK[metric]
    if (now.lo if metric == TIMED else now.value) > was.hi + slack:
        # Without what grew slower than the rest: nothing to mind.
        return (PASSED, "it is less at every size, and rises by no more") if eased else (REGRESSION, "")
    if (now.hi if metric == TIMED else now.value) < was.lo - slack:
        # More work at every size, of a kind that grows slower than the rest: nothing to be glad of.
        return (PASSED, "it grows slower, and is more") if grown else (IMPROVED, "")
    return PASSED, ""


def judge_determined(was: LawKept, now: LawKept) -> Found | None:
    """Whether a law of time can be compared at all; None if it can."""
    for law, when in ((was, "in the baseline"), (now, "now")):
        if not law.determined:
            return UNDECIDED, f"the law of time is not determined {when}"
    return None


def judge_claim(was: ClaimKept, now: ClaimKept | None, of_time: bool) -> Found:
    """Whether a claim of theory is newly refuted."""
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
    """`1.00`, with its interval where it has one: `0.92 (0.66 to 1.39)`; `bare`: never."""
    if value is None:
        return ""
    if bare or value.lo == value.hi:
        return signed(value.value)
    return f"{signed(value.value)} ({signed(value.lo)} to {signed(value.hi)})"
