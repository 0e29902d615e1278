"""The verdict on time: its scaling exponent at the largest size, compared with the claimed work and depth."""

from collections.abc import Sequence

from harness.claims import Polynomial
from harness.findings.claimed import (
    CONFIRMED,
    READ_TO,
    REFUTED,
    UNDETERMINED,
    WIDEST,
    Judgement,
    Size,
    degree,
    exponent_at,
    signed,
    size_of,
)
from harness.findings.laws import FittedLaw
from harness.scaling.exponent import exponent
from harness.scaling.law import Range
from harness.summary import Line


def judge_time(
    lines: Sequence[Line], fitted: FittedLaw | None, work: Polynomial, depth: Polynomial | None
) -> tuple[str, Judgement]:
    """Return the exponent claimed of time, as text, and the judgement on it.

    At the largest size, time must grow with n as the claimed work does, or as the claimed depth if that grows faster.
    The cost of a multiply-add is free and may differ from term to term.
    """
    timed = [line for line in lines if line.time_s is not None]
    at = max(timed or lines, key=lambda line: (line.batch_size * work(*size_of(line)), size_of(line)))
    expected, where = claimed_exponent(work, depth, size_of(at)), f"at n = {at.seq_len}, d = {at.d_model}"
    claimed = f"n^{expected.value:.2f} {where}"
    if fitted is None or not timed:
        return claimed, Judgement("", UNDETERMINED, "it has no law of time" if timed else "it was not timed")
    found = exponent(fitted.law, "n", *size_of(at), at.batch_size)
    if found is None:
        return claimed, Judgement("", UNDETERMINED, "n was not varied")
    measured = f"n^{_range(found)}"
    free = f" ({expected.lo:.2f} to {expected.hi:.2f} as constants are)" if expected.hi - expected.lo > 0.01 else ""
    allowed = f"{expected.value:.2f}{free}, {READ_TO:g} either way"
    said = f"measured exponent {_range(found)} where the claim has {allowed}, {where}"
    verdict, doubt = _compare(found, expected, fitted)
    return claimed, Judgement(measured, verdict, f"{said}: {doubt}" if doubt else said)


def _compare(found: Range, expected: Range, fitted: FittedLaw) -> tuple[str, str]:
    """The verdict on a measured exponent, and the reason for any doubt."""
    if not fitted.law.determined:
        return UNDETERMINED, f"its law is not determined, {fitted.law.reason}"
    if not found.hi - found.lo <= WIDEST:
        return UNDETERMINED, "the interval is too wide to tell"
    if _within(found.lo, found.hi, expected):
        if expected.hi - expected.lo > WIDEST:
            return (
                UNDETERMINED,
                f"anything from {expected.lo:.2f} to {expected.hi:.2f} would agree, larger n would tell",
            )
        return CONFIRMED, ""
    if found.hi < expected.lo:
        # Time cannot keep growing more slowly than the work. Other costs still dominate at these sizes.
        return UNDETERMINED, "calls and launches, paid whatever the work, still weigh: larger n would tell"
    return REFUTED, ""


def claimed_exponent(work: Polynomial, depth: Polynomial | None, size: Size) -> Range:
    """Return the exponent of time along n that the claims imply at a size.

    It is at least that of the depth: a layer that does n steps one after another needs time for each of them.
    """
    of_work = exponent_at(work, "n", size)
    steps = float(degree(depth, "n")) if depth is not None else 0.0
    return Range(max(of_work.value, steps), max(of_work.lo, steps), max(of_work.hi, steps))


def _within(lo: float, hi: float, expected: Range) -> bool:
    return lo <= expected.hi + READ_TO and hi >= expected.lo - READ_TO


def _range(found: Range) -> str:
    return f"{signed(found.value)} ({signed(found.lo)} to {signed(found.hi)})"
