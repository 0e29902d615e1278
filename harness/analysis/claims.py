"""How fast a layer's claims grow with n, d and h, and the verdict on its measured time.

A claim by order leaves the constant of each of its terms free, so its scaling exponent is a range.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness import claims
from harness.analysis.fitted_laws import FittedLaw
from harness.claims import Polynomial, Term
from harness.fit.laws import Range, exponent_of
from harness.results.table import CaseResult
from impls.registry import IMPLS

CONFIRMED, REFUTED, UNDETERMINED = "confirmed", "refuted", "undetermined"

# The constants of a claim's terms are free, but one may be at most this many times another. One word or one
# multiply-add more or less makes such a difference.
FREE_FACTOR = 2.0
# Tolerance of an exponent. A claim leaves out terms of lower order, which shift the exponent by this much.
RESOLUTION = 0.1
# With a wider interval than this (±0.25), an exponent could be that of another order.
WIDEST = 0.5

Size = tuple[int, int, int]  # n, d, h


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim (confirmed, refuted or undetermined), what was measured, and the reason."""

    measured: str
    verdict: str
    reason: str


def claims_of(lines: Iterable[CaseResult]) -> dict[str, str]:
    """Return the claims of these lines' layer, as text by name.

    The claims of a built-in layer come from the registry, those of other layers from their rows.
    """
    for line in lines:
        if line.impl in IMPLS:
            return {name: text for name in claims.CLAIMS if (text := getattr(IMPLS[line.impl], name))}
        if line.claims:
            return _stated_growth(line.claims)
    return {}


def _stated_growth(text: str) -> dict[str, str]:
    """The claims in a row. A row edited by hand may be malformed; its text is then passed on as unreadable claims."""
    try:
        stated = json.loads(text)
    except ValueError:
        stated = None
    if not isinstance(stated, dict):
        return dict.fromkeys(("work", "work_train"), text)
    return {str(name): str(claim) for name, claim in stated.items()}


def degree(claim: Polynomial, axis: str) -> int:
    """Return the highest power of the axis ('n', 'd' or 'h') in the claim."""
    return max(int(getattr(term, axis)) for term in claim.terms)


def log_sizes(claim: Polynomial) -> int:
    """Return the power of log n in the terms with the highest power of n."""
    return max(term.log for term in claim.terms if term.n == degree(claim, "n"))


def differ_beyond_doubt(sizes: Iterable[int]) -> list[int]:
    """Return the largest size, the largest of at most half of it, and so on, in ascending order.

    Between closer sizes, growth cannot be distinguished from rounding up to whole blocks.
    """
    found: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not found or 2 * size <= found[-1]:
            found.append(size)
    return found[::-1]


def exponent_at(claim: Polynomial, axis: str, size: Size) -> Range:
    """Return d log claim / d log axis at a size, and its range over the free constants."""
    parts = [(_value(term, size), float(getattr(term, axis))) for term in _growing_axes(claim)]
    return _over_constants(
        len(parts),
        lambda free: (
            sum(f * v * power for f, (v, power) in zip(free, parts, strict=True))
            / sum(f * v for f, (v, _) in zip(free, parts, strict=True))
        ),
    )


def exponent_between(claim: Polynomial, axis: str, small: Size, large: Size) -> Range:
    """Return the claim's scaling exponent between two sizes, and its range over the free constants.

    `large` is larger than `small` along the axis.
    """
    ends = [(_value(term, small), _value(term, large)) for term in _growing_axes(claim)]
    at = "ndh".index(axis)
    run = math.log(large[at] / small[at])
    return _over_constants(
        len(ends),
        lambda free: (
            math.log(
                sum(f * end for f, (_, end) in zip(free, ends, strict=True))
                / sum(f * start for f, (start, _) in zip(free, ends, strict=True))
            )
            / run
        ),
    )


def _growing_axes(claim: Polynomial) -> list[Term]:
    """The positive terms. A subtracted term, as in 12nd² − 2d², is of lower order. A claim of 0 counts as constant."""
    return [term for term in claim.terms if term.coefficient > 0] or [Term(1)]


def _value(term: Term, size: Size) -> float:
    n, d, h = size
    return float(term.coefficient * n**term.n * d**term.d * float(h) ** term.h * math.log2(max(n, 2)) ** term.log)


def _over_constants(number: int, exponent: Callable[[tuple[float, ...]], float]) -> Range:
    """The exponent with the constants as claimed, and its range over all allowed constants.

    The exponent is a ratio of sums that are linear in the constants, so its extremes lie at the corners.
    """
    side = math.sqrt(FREE_FACTOR)
    corners = [exponent(free) for free in itertools.product((1 / side, side), repeat=number)]
    return Range(exponent((1.0,) * number), min(corners), max(corners))


def size_of(line: CaseResult) -> Size:
    """Return the (n, d, h) of a line."""
    return line.seq_len, line.d_model, line.num_heads


def signed_exponent(value: float) -> str:
    """Format an exponent with two decimals and a true minus sign."""
    return f"{value + 0.0:.2f}".replace("-", "−").replace("−0.00", "0.00")


def judge_time(
    lines: Sequence[CaseResult], fitted: FittedLaw | None, work: Polynomial, depth: Polynomial | None
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
    found = exponent_of(fitted.law, "n", *size_of(at), at.batch_size)
    if found is None:
        return claimed, Judgement("", UNDETERMINED, "n was not varied")
    measured = f"n^{_range(found)}"
    free = f" ({expected.lo:.2f} to {expected.hi:.2f} as constants are)" if expected.hi - expected.lo > 0.01 else ""
    allowed = f"{expected.value:.2f}{free}, {RESOLUTION:g} either way"
    said = f"measured exponent {_range(found)} where the claim has {allowed}, {where}"
    verdict, doubt = _compare_time(found, expected, fitted)
    return claimed, Judgement(measured, verdict, f"{said}: {doubt}" if doubt else said)


def _compare_time(found: Range, expected: Range, fitted: FittedLaw) -> tuple[str, str]:
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
    return lo <= expected.hi + RESOLUTION and hi >= expected.lo - RESOLUTION


def _range(found: Range) -> str:
    return f"{signed_exponent(found.value)} ({signed_exponent(found.lo)} to {signed_exponent(found.hi)})"
