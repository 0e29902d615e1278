"""What an impl claims, and how fast that grows: a claim of an order leaves the constant of each of its terms free."""

import itertools
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness import claims
from harness.claims import Polynomial, Term
from harness.scaling.law import Range
from harness.summary import Line
from impls.registry import IMPLS

CONFIRMED, REFUTED, UNDETERMINED = "confirmed", "refuted", "undetermined"

# Of two terms of a claim one may cost this many times as much per unit as the other: its constants are free, within
# what one word or one multiply-add more or less makes of them.
FREE_FACTOR = 2.0
# An exponent is read no finer than this: terms of lower order, which a claim leaves out, bend it by so much.
READ_TO = 0.1
# An exponent known to less than ±0.25 could be that of another order.
WIDEST = 0.5

Size = tuple[int, int, int]  # n, d, h


@dataclass(frozen=True)
class Judgement:
    """What became of a claim: what was measured, one of confirmed, refuted and undetermined, and why."""

    measured: str
    verdict: str
    reason: str


def claims_of(lines: Iterable[Line]) -> dict[str, str]:
    """What the impl of these lines claims, as it is written: ours by the registry, others as their rows say."""
    for line in lines:
        if line.impl in IMPLS:
            return {name: text for name in claims.CLAIMS if (text := getattr(IMPLS[line.impl], name))}
        if line.claims:
            return _stated(line.claims)
    return {}


def _stated(text: str) -> dict[str, str]:
    """The claims in a row. What somebody has made of a row by hand is passed on as a claim that cannot be read."""
    try:
        stated = json.loads(text)
    except ValueError:
        stated = None
    if not isinstance(stated, dict):
        return dict.fromkeys(("work", "work_train"), text)
    return {str(name): str(claim) for name, claim in stated.items()}


def degree(claim: Polynomial, axis: str) -> int:
    """The highest power of the axis ('n', 'd' or 'h') in the claim."""
    return max(int(getattr(term, axis)) for term in claim.terms)


def logs(claim: Polynomial) -> int:
    """The power of log n beside the highest power of n in the claim."""
    return max(term.log for term in claim.terms if term.n == degree(claim, "n"))


def apart(sizes: Iterable[int]) -> list[int]:
    """The largest size, the largest of at most half of it, and so on, in ascending order.

    Between closer ones growth cannot be told from what rounds sizes up to whole blocks.
    """
    found: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not found or 2 * size <= found[-1]:
            found.append(size)
    return found[::-1]


def exponent_at(claim: Polynomial, axis: str, size: Size) -> Range:
    """d log claim / d log axis at a size, and between what it lies with the constants free."""
    parts = [(_value(term, size), float(getattr(term, axis))) for term in _growing(claim)]
    return _over_constants(
        len(parts),
        lambda free: (
            sum(f * v * power for f, (v, power) in zip(free, parts, strict=True))
            / sum(f * v for f, (v, _) in zip(free, parts, strict=True))
        ),
    )


def exponent_between(claim: Polynomial, axis: str, small: Size, large: Size) -> Range:
    """The slope on log-log paper from one size to another that is larger along the axis, with the constants free."""
    ends = [(_value(term, small), _value(term, large)) for term in _growing(claim)]
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


def _growing(claim: Polynomial) -> list[Term]:
    """The terms that are added: what is taken off, as in 12nd² − 2d², is of lower order. A claim of 0 is constant."""
    return [term for term in claim.terms if term.coefficient > 0] or [Term(1)]


def _value(term: Term, size: Size) -> float:
    n, d, h = size
    return float(term.coefficient * n**term.n * d**term.d * float(h) ** term.h * math.log2(max(n, 2)) ** term.log)


def _over_constants(number: int, exponent: Callable[[tuple[float, ...]], float]) -> Range:
    """A ratio of sums that are linear in the constants is extreme at the corners of what these may be."""
    side = math.sqrt(FREE_FACTOR)
    corners = [exponent(free) for free in itertools.product((1 / side, side), repeat=number)]
    return Range(exponent((1.0,) * number), min(corners), max(corners))


def size_of(line: Line) -> Size:
    """Where a line was measured."""
    return line.seq_len, line.d_model, line.num_heads


def signed(value: float) -> str:
    """An exponent as it is read: two digits, and a minus that is one."""
    return f"{value + 0.0:.2f}".replace("-", "−").replace("−0.00", "0.00")
