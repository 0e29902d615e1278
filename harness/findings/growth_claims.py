"""Claims of memory and time, held against how fast these grow at the largest sizes."""

import math
from collections.abc import Iterable, Sequence

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
    exponent_between,
)
from harness.findings.laws import FittedLaw
from harness.scaling.exponent import exponent
from harness.scaling.law import Range
from harness.summary import Line

_ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_AXES = {"n": "seq_len", "d": "d_model", "h": "num_heads"}


def judge_memory(lines: Sequence[Line], claim: Polynomial) -> Judgement:
    """By order: between the two largest values of each axis, peak bytes grow as the claim does.

    Bytes are exact, so the measured exponent has no interval; the claim's has one, since its constants are free.
    Every axis in the claim must have been varied for it to be confirmed.
    """
    known = [line for line in lines if line.peak_bytes]
    if not known:
        return Judgement("", UNDETERMINED, "its peak memory is not known")
    measured, open_questions, compared = [], [], []
    for axis in _AXES:
        ends = _ends(known, axis, claim)
        if ends is None:
            if degree(claim, axis):
                open_questions.append(f"{axis} was not varied")
            continue
        slope = _slope(ends[-2:], axis)
        expected = exponent_between(claim, axis, _size(ends[-2]), _size(ends[-1]))
        measured.append(f"{axis}^{_signed(slope)}")
        said = f"{axis}: {_signed(slope)} where the claim has {_signed(expected.value)}"
        if _within(slope, slope, expected):
            compared.append(said)
            if expected.hi - expected.lo > WIDEST:
                open_questions.append(
                    f"{said}, or anything from {expected.lo:.2f} to {expected.hi:.2f} as constants are"
                )
        elif doubt := _low(slope, expected, ends, axis):
            open_questions.append(f"{said}{doubt}")
        else:
            return Judgement("·".join(measured), REFUTED, f"{said}, between {_sizes(ends[-2:], axis)}")
    reason = "; ".join([*compared, _words(known, claim)])
    if open_questions:
        return Judgement("·".join(measured), UNDETERMINED, "; ".join([*open_questions, _words(known, claim)]))
    return Judgement("·".join(measured), CONFIRMED, reason)


def _low(slope: float, expected: Range, ends: Sequence[Line], axis: str) -> str:
    """Why memory that grows slower than claimed may still come to it: terms of lower order weigh at small sizes."""
    if slope > expected.hi or slope <= READ_TO:
        return ""
    if len(ends) == 2:
        return f": two {axis} cannot tell"
    rising = slope > _slope(ends[:2], axis) + READ_TO
    return f", and still rising: larger {axis} would tell" if rising else ""


def _ends(lines: Iterable[Line], axis: str, claim: Polynomial) -> list[Line] | None:
    """The three largest sizes along the axis, or two, all else equal, where the claim is largest."""
    groups: dict[tuple[int, ...], dict[int, Line]] = {}
    others = [name for name in (*_AXES.values(), "batch_size") if name != _AXES[axis]]
    for line in lines:
        group = groups.setdefault(tuple(getattr(line, name) for name in others), {})
        group[getattr(line, _AXES[axis])] = line
    series = [[group[at] for at in sorted(group)][-3:] for group in groups.values() if len(group) > 1]
    return max(series, key=lambda ends: (claim(*_size(ends[-1])), _size(ends[-1])), default=None)


def _size(line: Line) -> Size:
    return line.seq_len, line.d_model, line.num_heads


def _slope(ends: Sequence[Line], axis: str) -> float:
    small, large = ends
    run = math.log(getattr(large, _AXES[axis]) / getattr(small, _AXES[axis]))
    return math.log((large.peak_bytes or 1) / (small.peak_bytes or 1)) / run


def _sizes(ends: Sequence[Line], axis: str) -> str:
    return " and ".join(f"{axis} = {getattr(line, _AXES[axis])}" for line in ends)


def _words(lines: Iterable[Line], claim: Polynomial) -> str:
    """Between how many words a claimed word was."""
    ratios = [
        (line.peak_bytes or 0) / (_ITEM_BYTES[line.dtype] * line.batch_size * claim(*_size(line)))
        for line in lines
        if claim(*_size(line)) > 0
    ]
    if not ratios:
        return "it claims no memory"
    least, most = (f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}" for ratio in (min(ratios), max(ratios)))
    return f"{least if least == most else f'{least} to {most}'} words for each claimed"


def judge_time(
    lines: Sequence[Line], fitted: FittedLaw | None, work: Polynomial, depth: Polynomial | None
) -> tuple[str, Judgement]:
    """`(claimed, what became of it)`: at the largest size time must grow with n as the claimed work does there.

    Or as the claimed depth, if that grows faster. What a multiply-add costs is free, and may differ from term to term.
    """
    timed = [line for line in lines if line.time_s is not None]
    at = max(timed or lines, key=lambda line: (line.batch_size * work(*_size(line)), _size(line)))
    expected, where = claimed_exponent(work, depth, _size(at)), f"at n = {at.seq_len}, d = {at.d_model}"
    claimed = f"n^{expected.value:.2f} {where}"
    if fitted is None or not timed:
        return claimed, Judgement("", UNDETERMINED, "it has no law of time" if timed else "it was not timed")
    found = exponent(fitted.law, "n", *_size(at), at.batch_size)
    if found is None:
        return claimed, Judgement("", UNDETERMINED, "n was not varied")
    measured = f"n^{_range(found)}"
    said = f"measured exponent {_range(found)} where the claim has {expected.value:.2f}, {where}"
    verdict, doubt = _compare(found, expected, fitted)
    return claimed, Judgement(measured, verdict, f"{said}: {doubt}" if doubt else said)


def _compare(found: Range, expected: Range, fitted: FittedLaw) -> tuple[str, str]:
    """The verdict on a measured exponent, and what it leaves open."""
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
        # No machine does its work in less and less time: what grows slower than that is still made of something else.
        return UNDETERMINED, "calls and launches, paid whatever the work, still weigh: larger n would tell"
    return REFUTED, ""


def claimed_exponent(work: Polynomial, depth: Polynomial | None, size: Size) -> Range:
    """Of time along n, at a size: a layer that does its steps one after another takes n of them at least."""
    of_work = exponent_at(work, "n", size)
    steps = float(degree(depth, "n")) if depth is not None else 0.0
    return Range(max(of_work.value, steps), max(of_work.lo, steps), max(of_work.hi, steps))


def _within(lo: float, hi: float, expected: Range) -> bool:
    return lo <= expected.hi + READ_TO and hi >= expected.lo - READ_TO


def _range(found: Range) -> str:
    return f"{_signed(found.value)} ({_signed(found.lo)} to {_signed(found.hi)})"


def _signed(value: float) -> str:
    return f"{value + 0.0:.2f}".replace("-", "−").replace("−0.00", "0.00")
