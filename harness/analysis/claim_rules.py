"""Judge claims of FLOPs, sequential depth, path length and memory by counts that repeat exactly.

FLOPs must equal the claim to the last digit. The other claims are orders. An order leaves the constant of each of its
terms free, so its scaling exponent is a range.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np

from harness.fit.laws import Floats, Law, Range
from harness.polynomial import Polynomial, Term
from harness.results.columns import CaseResult
from harness.sweep_axes import SIZES

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


def sizes_factor_two_apart(sizes: Iterable[int]) -> list[int]:
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
    terms, values = _growing_terms(claim, size)
    powers = np.array([getattr(term, axis) for term in terms])
    return _over_constants(len(values), lambda free: free @ (values * powers) / (free @ values))


def exponent_between(claim: Polynomial, axis: str, small: Size, large: Size) -> Range:
    """Return the claim's scaling exponent between two sizes, and its range over the free constants.

    `large` is larger than `small` along the axis.
    """
    (_, start), (_, end) = (_growing_terms(claim, size) for size in (small, large))
    at = "ndh".index(axis)
    run = math.log(large[at] / small[at])
    return _over_constants(len(start), lambda free: np.log(free @ end / (free @ start)) / run)


def _growing_terms(claim: Polynomial, size: Size) -> tuple[list[Term], Floats]:
    """The positive terms, and their values at a size.

    A subtracted term, as in 12nd² − 2d², is of lower order. A claim of 0 counts as constant.
    """
    n, d, h = size
    at = SimpleNamespace(n=n, d=d, h=float(h), b=1, log=math.log2(max(n, 2)))
    growing = {term: value for term, value in claim.coefficients.items() if value > 0} or {Term(): 1}
    return list(growing), np.array([float(value * term(at)) for term, value in growing.items()])


def _over_constants(number: int, exponent: Callable[[Floats], Floats]) -> Range:
    """The exponent with the constants as claimed, and its range over all allowed constants.

    The exponent is a ratio of sums that are linear in the constants, so its extremes lie at the corners.
    """
    side = math.sqrt(FREE_FACTOR)
    corners = exponent(np.array([*product((1 / side, side), repeat=number)]))
    return Range(float(exponent(np.ones(number))), float(corners.min()), float(corners.max()))


def size_of(line: CaseResult) -> Size:
    """Return the (n, d, h) of a line."""
    return line.seq_len, line.d_model, line.num_heads


def _along(lines: Iterable[CaseResult], axis: str) -> list[dict[int, CaseResult]]:
    """The lines by their size along an axis, in ascending order, for each combination of the other sizes."""
    groups: dict[tuple[int, ...], dict[int, CaseResult]] = {}
    for line in lines:
        others = tuple(getattr(line, name) for other, name in SIZES.items() if other != axis)
        groups.setdefault(others, {})[getattr(line, SIZES[axis])] = line
    return [dict(sorted(found.items())) for found in groups.values()]


def signed_exponent(value: float) -> str:
    """Format an exponent with two decimals and a true minus sign."""
    return f"{value + 0.0:.2f}".replace("-", "−").replace("−0.00", "0.00")


def exponent_interval(found: Range) -> str:
    """Format an exponent with its interval: `1.87 (1.75 to 1.98)`."""
    return f"{signed_exponent(found.value)} ({signed_exponent(found.lo)} to {signed_exponent(found.hi)})"


# A CUDA attention kernel pads head sizes to a multiple of this and computes on the padding, so FLOPs include it.
_PADDED_TO = 8


def judge_work(lines: Sequence[CaseResult], claim: Polynomial | None, law: Law | None) -> Judgement:
    """Judge the claimed FLOPs: every count must equal the claim times the batch size, to the last digit.

    Without `claim`, the count must equal the line's `flops_claimed`. Lines without either claim are not judged. A
    kernel may skip what a causal mask hides. Its claim may include the skipped FLOPs or not.
    """
    counted = [line for line in lines if line.flops is not None]
    if not counted:
        unknown = [line.facts_unknown for line in lines if line.facts_unknown]
        failed = [f"{line.status}: {line.reason}" for line in lines if line.status != "ok"]
        why = next(iter(unknown + failed), "it was not taken")
        return Judgement("", UNDETERMINED, f"its work is not known: {why}")
    plain = [line for line in counted if line.device != "cuda" or not (line.d_model // line.num_heads) % _PADDED_TO]
    if not plain:
        return Judgement("", UNDETERMINED, "on a GPU its head sizes are padded to a multiple of 8, and counted so")
    last = plain[-1]
    measured = f"{last.flops:,} at n = {last.seq_len}, d = {last.d_model}"
    if law is not None and law.exact and law.determined and not law.breaks:
        measured = str(law)
    claiming = [(line, claimed) for line in plain if (claimed := _claimed(line, claim)) is not None]
    if not claiming:
        return Judgement(measured, UNDETERMINED, "no case that was counted claims anything")
    for line, claimed in claiming:
        if not _supports(line, claimed):
            which = f"n = {line.seq_len}, d = {line.d_model}, h = {line.num_heads}"
            if is_masked(line):
                # Some layers compute a masked pass in another way, such as parallel linear attention.
                text = f"it claims {claimed:,} FLOPs without a mask, and does {line.flops:,} at {which}"
                return Judgement(measured, UNDETERMINED, text)
            return Judgement(measured, REFUTED, f"at {which} it claims {claimed:,} FLOPs and does {line.flops:,}")
    cases = f"{len(plain)} cases" if len(plain) > 1 else "the one case measured"
    if len(claiming) < len(plain):
        cases = f"{len(claiming)} of {cases}, the others claim nothing"
    if any(claimed not in (line.flops, line.flops_full) for line, claimed in claiming):
        text = f"between a half and all of what is claimed in {cases}: what the mask hides is left out"
        return Judgement(measured, CONFIRMED, text)
    return Judgement(measured, CONFIRMED, f"to the last digit in {cases}")


def is_masked(line: CaseResult) -> bool:
    """Whether a mask changes the work, which claims do not cover. A decoded token has no later tokens to hide."""
    return line.mask != "none" and line.mode != "decode"


def _supports(line: CaseResult, claimed: int) -> bool:
    """Whether the count is as claimed. A causal mask may leave out up to half of it: a triangle of a square."""
    if is_masked(line) and line.mask == "causal" and line.flops is not None and claimed <= 2 * line.flops:
        return line.flops <= claimed
    return claimed in (line.flops, line.flops_full)


def _claimed(line: CaseResult, claim: Polynomial | None) -> int | None:
    return line.batch_size * claim(*size_of(line)) if claim else line.flops_claimed


def judge_depth(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge the claimed sequential depth by its order in n; constants are free.

    The depth must be the same at every n, or lie on a straight line over the claimed power of n. If log n is claimed,
    the straight line is over log₂ n rounded up.
    """
    series = _over_n(lines)
    if not series:
        known = [f"{line.depth} at n = {line.seq_len}" for line in lines if line.depth is not None]
        return Judgement(known[-1] if known else "", UNDETERMINED, "its depth is not known at two n or more")
    (power, log), declared = claim.growth("n"), _declared_share(lines)
    others = [(depths, _doubt_text(depths, power, log)) for depths in series if not _follows_order(depths, power, log)]
    if not others:
        longest = max(series, key=len)
        return Judgement(_law_text(longest), CONFIRMED, f"{_first_and_last(longest)}{declared}")
    depths, doubt = min(others, key=lambda other: bool(other[1]))
    text = doubt or f": exponent {_order(depths):.2f} where the claim has {'log n' if log else power}"
    verdict = UNDETERMINED if doubt else REFUTED
    return Judgement(_law_text(depths), verdict, f"{_first_and_last(depths)}{text}{declared}")


def judge_path(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge the claimed path length from the sequential depth, which is an upper bound.

    No path from one position to another is longer than the longest chain of operations. So the depth confirms a claim
    of its own order and refutes a claim of a higher order. It cannot tell whether a shorter path exists.
    """
    series = _over_n(lines)
    if not series:
        return Judgement("", UNDETERMINED, "its depth, which bounds the path, is not known at two n or more")
    (power, log), longest = claim.growth("n"), max(series, key=len)
    measured = f"at most {_law_text(longest)}"
    chain = f"upper bound: the longest dependency chain, {_first_and_last(longest)}{_declared_share(lines)}"
    if all(_follows_order(depths, power, log) for depths in series):
        return Judgement(measured, CONFIRMED, chain)
    if all(_order(depths) < power - RESOLUTION for depths in series):
        # One series that leaves no doubt is enough.
        doubt = min(_doubt_text(depths, power, log) for depths in series)
        return Judgement(measured, UNDETERMINED if doubt else REFUTED, f"{chain}{doubt}")
    return Judgement(measured, UNDETERMINED, f"{chain}; that it is shorter cannot be seen from outside")


def _follows_order(depths: Mapping[int, int], power: int, log: int = 0) -> bool:
    """Whether the depth is of the order of n to `power`, or of log n if `log` is not 0."""
    if log:
        return power == 0 and len(depths) > 2 and _straight({(n - 1).bit_length(): d for n, d in depths.items()})
    if power == 0:
        return len(set(depths.values())) == 1
    on_powers = {n**power: depth for n, depth in depths.items()}
    if len(depths) > 2 and _straight(on_powers):
        return True
    return len(sizes_factor_two_apart(depths)) > 1 and abs(_order(depths) - power) <= RESOLUTION


def _doubt_text(depths: Mapping[int, int], power: int, log: int = 0) -> str:
    """Why a depth that does not follow its claimed order may still do so at larger n; empty if it cannot.

    The constants are free, however large.
    """
    if log and len(depths) < 3:
        return ": two n cannot tell its order"
    if power == 0:
        return ""
    ends = sizes_factor_two_apart(depths)[-3:]
    if len(ends) < 2:
        return ": no n is twice another, which cannot tell its order"
    if len(ends) == 2:
        return ": two n cannot tell its order" if depths[ends[1]] > depths[ends[0]] else ""
    # A constant cancels out of these differences. The tolerance ignores a step more or less.
    early, late = ((depths[n2] - depths[n1]) / (n2**power - n1**power) for n1, n2 in pairwise(ends))
    rising = late > 0 and late >= early * (ends[1] / ends[2]) ** RESOLUTION
    return ", and still rising: larger n would tell" if rising and _order(depths) < power else ""


def _over_n(lines: Sequence[CaseResult]) -> list[Mapping[int, int]]:
    """The depth by n, for each (d, h, b) where it is known at two or more n."""
    known = [line for line in lines if line.depth is not None]
    return [{n: line.depth or 0 for n, line in found.items()} for found in _along(known, "n") if len(found) > 1]


def _order(depths: Mapping[int, int]) -> float:
    """The scaling exponent up to the largest n, from the largest n of at most half of it.

    If no n is that small, the exponent starts at the smallest n.
    """
    ends = sizes_factor_two_apart(depths)
    small, large = ends[-2:] if len(ends) > 1 else (min(depths), max(depths))
    return math.log(max(depths[large], 1) / max(depths[small], 1)) / math.log(large / small)


def _straight(depths: Mapping[int, int]) -> bool:
    """Whether all points lie exactly on one rising line."""
    steps = [(x2 - x1, y2 - y1) for (x1, y1), (x2, y2) in pairwise(depths.items())]
    return steps[0][1] > 0 and all(x * steps[0][1] == y * steps[0][0] for x, y in steps)


def _law_text(depths: Mapping[int, int]) -> str:
    """The depth as text: `5`, `3n + 2`, or the depth at the largest n."""
    if len(set(depths.values())) == 1:
        return str(next(iter(depths.values())))
    (n1, y1), (n2, y2) = list(depths.items())[:2]
    step, rest = divmod(y2 - y1, n2 - n1)
    if len(depths) > 2 and not rest and _straight(depths):
        return str(Polynomial({Term(n=1): step}) + Polynomial({Term(): y1 - step * n1}))
    return f"{depths[max(depths)]} at n = {max(depths)}"


def _first_and_last(depths: Mapping[int, int]) -> str:
    small, large = min(depths), max(depths)
    if len(set(depths.values())) == 1:
        return f"{depths[small]} at every n from {small} to {large}"
    return f"{depths[small]} at n = {small} and {depths[large]} at n = {large}"


def _declared_share(lines: Sequence[CaseResult]) -> str:
    """A note on the part of the depth that kernels declare and that cannot be observed; empty if none."""
    most = max((line.depth_declared or 0 for line in lines), default=0)
    return f" (up to {most} of these operations are declared by fused kernels and cannot be observed)" if most else ""


_ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def judge_memory(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge a claim of memory by its order, which is an upper bound.

    Along no axis may peak bytes grow faster than the claim at the largest sizes. Bytes are exact, so the measured
    exponent has no interval. The claim's exponent has one, because its constants are free. A claim is confirmed only
    if every axis in it was varied.
    """
    known = [line for line in lines if line.peak_bytes]
    if any(line.allocates_outside_torch for line in lines):
        return Judgement("", UNDETERMINED, "its peak memory is not known: it allocates memory outside torch")
    if not known:
        return Judgement("", UNDETERMINED, "its peak memory is not known")
    along = {axis: _stretches(ends, axis, claim) for axis in "ndh" if (ends := _ends_of_stretch(known, axis, claim))}
    within = any(_within_term(along, term) for term, value in claim.coefficients.items() if value > 0)
    measured = ""
    text: dict[str, list[str]] = {UNDETERMINED: [], CONFIRMED: []}
    for axis in "ndh":
        power, _ = claim.growth(axis)
        if axis in along:
            measured += f"{'·' if measured else ''}{axis}^{signed_exponent(along[axis][0].exponent)}"
            verdict, reason = _judge_axis(axis, power, along[axis], within)
            if verdict == REFUTED:
                return Judgement(measured, REFUTED, reason)
            text[verdict].append(reason)
        elif power:
            text[UNDETERMINED].append(f"{axis} was not varied by a factor of two")
    verdict = UNDETERMINED if text[UNDETERMINED] else CONFIRMED
    return Judgement(measured, verdict, "; ".join([*text[verdict], _stretch_text(known, claim)]))


@dataclass(frozen=True)
class _Stretch:
    """Growth between two sizes along an axis, `where` in words.

    `exponent` is the measured exponent, `expected` that of the claim.
    """

    exponent: float
    expected: Range
    where: str

    @classmethod
    def between(cls, small: CaseResult, large: CaseResult, axis: str, claim: Polynomial) -> "_Stretch":
        sizes = [getattr(line, SIZES[axis]) for line in (small, large)]
        exponent = math.log((large.peak_bytes or 1) / (small.peak_bytes or 1)) / math.log(sizes[1] / sizes[0])
        expected = exponent_between(claim, axis, size_of(small), size_of(large))
        return cls(exponent, expected, " and ".join(f"{axis} = {size}" for size in sizes))

    @property
    def faster(self) -> bool:
        return self.exponent > self.expected.hi + RESOLUTION

    def __str__(self) -> str:
        return f"{signed_exponent(self.exponent)} where the claim has {signed_exponent(self.expected.value)}"


def _stretches(ends: Sequence[CaseResult], axis: str, claim: Polynomial) -> list[_Stretch]:
    """The stretch between the two largest sizes and, with more than two sizes, two further stretches.

    These are the stretch before it and the upper half of all sizes. The upper half begins at or below the geometric
    middle and holds at least three sizes.
    """
    at = [getattr(line, SIZES[axis]) for line in ends]
    half = max((i for i in range(len(ends) - 2) if at[i] ** 2 <= at[0] * at[-1]), default=0)
    pairs = [(-2, -1), (-3, -2), (half, -1)] if len(ends) > 2 else [(-2, -1)]
    return [_Stretch.between(ends[i], ends[j], axis, claim) for i, j in pairs]


def _within_term(along: Mapping[str, Sequence[_Stretch]], term: Term) -> bool:
    """Whether this term alone bounds the growth along every axis. The claim's other terms may then be absent."""
    return all(
        max(stretches[0].exponent, stretches[-1].exponent) <= getattr(term, axis) + RESOLUTION
        for axis, stretches in along.items()
    )


def _judge_axis(axis: str, power: int, stretches: Sequence[_Stretch], within: bool) -> tuple[str, str]:
    """The verdict along one axis and the reason. The axis's highest power in the claim is `power`.

    A single step, such as a workspace, is not growth: some stretches do not contain it.
    """
    last, half = stretches[0], stretches[-1]
    text, of_term = f"{axis}: {last}", f", and a term of it {axis}^{power}"
    if last.exponent < last.expected.lo - RESOLUTION and (within or not half.faster):
        return CONFIRMED, f"{text}, so it grows more slowly"
    if within:
        return CONFIRMED, f"{text}{of_term}" if last.faster else text
    if last.faster and len(stretches) == 1:
        return UNDETERMINED, f"{text}: two {axis} cannot tell growth from a step"
    others = [one for one in stretches if not one.faster]
    if not others and last.exponent <= power + RESOLUTION:  # one term grows this fast, and the others may be absent
        return UNDETERMINED, f"{text}{of_term}: larger {axis} would tell"
    if not others:
        return REFUTED, f"{text}, between {last.where}"
    if last.faster or half.faster:
        one = last if last.faster else half
        but = f"but {others[0]}, between {others[0].where}"
        return UNDETERMINED, f"{axis}: {one}, between {one.where}, {but}: larger {axis} would tell"
    allowed = last.expected
    if allowed.hi - allowed.lo > WIDEST and last.exponent > allowed.lo + RESOLUTION:
        return UNDETERMINED, f"{text}, or anything from {allowed.lo:.2f} to {allowed.hi:.2f} as constants are"
    return CONFIRMED, text


def _ends_of_stretch(lines: Iterable[CaseResult], axis: str, claim: Polynomial) -> list[CaseResult] | None:
    """The lines along the axis, at least a factor of two apart and otherwise equal; None if there are fewer than two.

    Of several series the one with the largest claim is taken. Between closer sizes, memory allocated in blocks stays
    the same or jumps.
    """
    series = [[by[at] for at in found] for by in _along(lines, axis) if len(found := sizes_factor_two_apart(by)) > 1]
    return max(series, key=lambda ends: (claim(*size_of(ends[-1])), size_of(ends[-1])), default=None)


def _stretch_text(lines: Iterable[CaseResult], claim: Polynomial) -> str:
    """The smallest and largest number of measured words for each claimed word, as text."""
    claimed = [(line, _ITEM_BYTES[line.dtype] * line.batch_size * claim(*size_of(line))) for line in lines]
    ratios = [(line.peak_bytes or 0) / size for line, size in claimed if size > 0]
    if not ratios:
        return "it claims no memory"
    least, most = (f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}" for ratio in (min(ratios), max(ratios)))
    return f"{least if least == most else f'{least} to {most}'} words for each claimed"
