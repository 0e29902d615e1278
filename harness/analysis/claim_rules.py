"""Verdicts on claims of FLOPs, sequential depth, path length and memory, from counts that repeat exactly.

FLOPs must equal the claim to the last digit. The other claims are orders, whose constants are free.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.analysis.claims import (
    CONFIRMED,
    REFUTED,
    RESOLUTION,
    UNDETERMINED,
    WIDEST,
    Judgement,
    degree,
    differ_beyond_doubt,
    exponent_between,
    log_sizes,
    signed_exponent,
    size_of,
)
from harness.claims import Polynomial, Term
from harness.fit.laws import Law, Range
from harness.results.table import CaseResult

# A CUDA attention kernel pads head sizes to a multiple of this and computes on the padding, so FLOPs include it.
_PADDED_TO = 8


def judge_work(lines: Sequence[CaseResult], claim: Polynomial | None, law: Law | None) -> Judgement:
    """Judge the claimed FLOPs: every count must equal the claim times the batch size, to the last digit.

    Without `claim`, the count must equal the line's `flops_claimed`. Lines without either claim are not judged. A
    kernel may skip what a causal mask hides. Its claim may include the skipped FLOPs or not.
    """
    counted = [line for line in lines if line.flops is not None]
    if not counted:
        why = next((line.facts_unknown for line in lines if line.facts_unknown), None) or _failed(lines)
        return Judgement("", UNDETERMINED, f"its work is not known: {why}")
    plain = [line for line in counted if not _padded(line)]
    if not plain:
        return Judgement("", UNDETERMINED, "on a GPU its head sizes are padded to a multiple of 8, and counted so")
    measured = str(law) if law is not None and law.exact and law.determined and not law.breaks else _count(plain[-1])
    claiming = [(line, claimed) for line in plain if (claimed := _claimed(line, claim)) is not None]
    if not claiming:
        return Judgement(measured, UNDETERMINED, "no case that was counted claims anything")
    for line, claimed in claiming:
        if not _supports(line, claimed):
            which = f"n = {line.seq_len}, d = {line.d_model}, h = {line.num_heads}"
            if is_masked(line):
                # Some layers compute a masked pass in another way, such as parallel linear attention.
                said = f"it claims {claimed:,} FLOPs without a mask, and does {line.flops:,} at {which}"
                return Judgement(measured, UNDETERMINED, said)
            return Judgement(measured, REFUTED, f"at {which} it claims {claimed:,} FLOPs and does {line.flops:,}")
    cases = f"{len(plain)} cases" if len(plain) > 1 else "the one case measured"
    if len(claiming) < len(plain):
        cases = f"{len(claiming)} of {cases}, the others claim nothing"
    if any(claimed not in (line.flops, line.flops_full) for line, claimed in claiming):
        said = f"between a half and all of what is claimed in {cases}: what the mask hides is left out"
        return Judgement(measured, CONFIRMED, said)
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
    if claim is None:
        return line.flops_claimed
    return line.batch_size * claim(line.seq_len, line.d_model, line.num_heads)


def _padded(line: CaseResult) -> bool:
    return line.device == "cuda" and bool((line.d_model // line.num_heads) % _PADDED_TO)


def _count(line: CaseResult) -> str:
    return f"{line.flops:,} at n = {line.seq_len}, d = {line.d_model}"


def _failed(lines: Sequence[CaseResult]) -> str:
    return next((f"{line.status}: {line.reason}" for line in lines if line.status != "ok"), "it was not taken")


def judge_depth(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge the claimed sequential depth by its order in n; constants are free.

    The depth must be the same at every n, or lie on a straight line over the claimed power of n. If log n is claimed,
    the straight line is over log₂ n rounded up.
    """
    series = _over_n(lines)
    if not series:
        return Judgement(_depths(lines), UNDETERMINED, "its depth is not known at two n or more")
    power, log, declared = degree(claim, "n"), log_sizes(claim), _declared_share(lines)
    longest = max(series, key=len)
    others = [(depths, _doubt_text(depths, power, log)) for depths in series if not _follows_order(depths, power, log)]
    for depths, doubt in sorted(others, key=lambda other: bool(other[1])):
        if doubt:
            return Judgement(_law_text(depths), UNDETERMINED, f"{_first_and_last(depths)}{doubt}{declared}")
        said = (
            f"{_first_and_last(depths)}: exponent {_order(depths):.2f} where the claim has {'log n' if log else power}"
        )
        return Judgement(_law_text(depths), REFUTED, f"{said}{declared}")
    return Judgement(_law_text(longest), CONFIRMED, f"{_first_and_last(longest)}{declared}")


def judge_path(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge the claimed path length from the sequential depth, which is an upper bound.

    No path from one position to another is longer than the longest chain of operations. So the depth confirms a claim
    of its own order and refutes a claim of a higher order. It cannot tell whether a shorter path exists.
    """
    series = _over_n(lines)
    if not series:
        return Judgement("", UNDETERMINED, "its depth, which bounds the path, is not known at two n or more")
    power, log, longest = degree(claim, "n"), log_sizes(claim), max(series, key=len)
    measured = f"at most {_law_text(longest)}"
    chain = f"no way is longer than the longest chain of operations, {_first_and_last(longest)}{_declared_share(lines)}"
    if all(_follows_order(depths, power, log) for depths in series):
        return Judgement(measured, CONFIRMED, f"{chain}; a bound from above" if power or log else chain)
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
    return len(differ_beyond_doubt(depths)) > 1 and abs(_order(depths) - power) <= RESOLUTION


def _doubt_text(depths: Mapping[int, int], power: int, log: int = 0) -> str:
    """Why a depth that does not follow its claimed order may still do so at larger n; empty if it cannot.

    The constants are free, however large.
    """
    if log and len(depths) < 3:
        return ": two n cannot tell its order"
    if power == 0:
        return ""
    ends = differ_beyond_doubt(depths)[-3:]
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
    groups: dict[tuple[int, int, int], dict[int, int]] = {}
    for line in lines:
        if line.depth is not None:
            at = (line.d_model, line.num_heads, line.batch_size)
            groups.setdefault(at, {})[line.seq_len] = line.depth
    return [dict(sorted(depths.items())) for depths in groups.values() if len(depths) > 1]


def _order(depths: Mapping[int, int]) -> float:
    """The scaling exponent up to the largest n, from the largest n of at most half of it.

    If no n is that small, the exponent starts at the smallest n.
    """
    ends = differ_beyond_doubt(depths)
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
        start = y1 - step * n1
        return f"{step if step > 1 else ''}n" + (f" {'+' if start > 0 else '−'} {abs(start)}" if start else "")
    return f"{depths[max(depths)]} at n = {max(depths)}"


def _first_and_last(depths: Mapping[int, int]) -> str:
    small, large = min(depths), max(depths)
    if len(set(depths.values())) == 1:
        return f"{depths[small]} at every n from {small} to {large}"
    return f"{depths[small]} at n = {small} and {depths[large]} at n = {large}"


def _depths(lines: Sequence[CaseResult]) -> str:
    known = [line for line in lines if line.depth is not None]
    return f"{known[-1].depth} at n = {known[-1].seq_len}" if known else ""


def _declared_share(lines: Sequence[CaseResult]) -> str:
    """A note on the part of the depth that kernels declare and that cannot be observed; empty if none."""
    most = max((line.depth_declared or 0 for line in lines), default=0)
    return f" (up to {most} of it declared by kernels that hide their inside)" if most else ""


_ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_AXES = {"n": "seq_len", "d": "d_model", "h": "num_heads"}


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
    measured: list[str] = []
    open_questions: list[str] = []
    compared: list[str] = []
    along = {axis: _stretches(ends, axis, claim) for axis in _AXES if (ends := _ends_of_stretch(known, axis, claim))}
    within = any(_within_term(along.values(), term) for term in claim.terms if term.coefficient > 0)
    for axis in _AXES:
        if axis not in along:
            if degree(claim, axis):
                open_questions.append(f"{axis} was not varied by a factor of two")
            continue
        measured.append(f"{axis}^{signed_exponent(along[axis][0].slope)}")
        verdict, said = _judge_axis(axis, along[axis], within)
        if verdict == REFUTED:
            return Judgement("·".join(measured), REFUTED, said)
        (open_questions if verdict == UNDETERMINED else compared).append(said)
    if open_questions:
        return Judgement("·".join(measured), UNDETERMINED, "; ".join([*open_questions, _stretch_text(known, claim)]))
    return Judgement("·".join(measured), CONFIRMED, "; ".join([*compared, _stretch_text(known, claim)]))


@dataclass(frozen=True)
class _Stretch:
    """Growth from one size to a larger one along an axis.

    `slope` is the measured exponent, `expected` that of the claim, and `power` the axis's highest power in the claim.
    """

    axis: str
    small: CaseResult
    large: CaseResult
    expected: Range
    power: int

    @property
    def slope(self) -> float:
        run = math.log(getattr(self.large, _AXES[self.axis]) / getattr(self.small, _AXES[self.axis]))
        return math.log((self.large.peak_bytes or 1) / (self.small.peak_bytes or 1)) / run

    @property
    def faster(self) -> bool:
        return self.slope > self.expected.hi + RESOLUTION

    @property
    def like_a_term(self) -> bool:
        """Whether one term of the claim grows this fast. The other terms affect `expected` but may be absent."""
        return self.slope <= self.power + RESOLUTION

    @property
    def where(self) -> str:
        return " and ".join(f"{self.axis} = {getattr(line, _AXES[self.axis])}" for line in (self.small, self.large))

    def __str__(self) -> str:
        return f"{signed_exponent(self.slope)} where the claim has {signed_exponent(self.expected.value)}"


def _stretches(ends: Sequence[CaseResult], axis: str, claim: Polynomial) -> list[_Stretch]:
    """The stretch between the two largest sizes and, with more than two sizes, two further stretches.

    These are the stretch before it and the upper half of all sizes. The upper half begins at or below the geometric
    middle and holds at least three sizes.
    """
    at = [getattr(line, _AXES[axis]) for line in ends]
    half = max((i for i in range(len(ends) - 2) if at[i] ** 2 <= at[0] * at[-1]), default=0)
    pairs = [(-2, -1), (-3, -2), (half, -1)] if len(ends) > 2 else [(-2, -1)]
    return [
        _Stretch(
            axis,
            ends[i],
            ends[j],
            exponent_between(claim, axis, size_of(ends[i]), size_of(ends[j])),
            degree(claim, axis),
        )
        for i, j in pairs
    ]


def _within_term(along: Iterable[Sequence[_Stretch]], term: Term) -> bool:
    """Whether this term alone bounds the growth along every axis. The claim's other terms may then be absent."""
    return all(
        max(stretches[0].slope, stretches[-1].slope) <= getattr(term, stretches[0].axis) + RESOLUTION
        for stretches in along
    )


def _judge_axis(axis: str, stretches: Sequence[_Stretch], within: bool) -> tuple[str, str]:
    """The verdict along one axis and the reason.

    A single step, such as a workspace, is not growth: some stretches do not contain it.
    """
    last, half = stretches[0], stretches[-1]
    said = f"{axis}: {last}"
    if last.slope < last.expected.lo - RESOLUTION and (within or not half.faster):
        return CONFIRMED, f"{said}, so it grows more slowly"
    if within:
        return CONFIRMED, f"{said}, and a term of it {axis}^{last.power}" if last.faster else said
    if last.faster and len(stretches) == 1:
        return UNDETERMINED, f"{said}: two {axis} cannot tell growth from a step"
    others = [one for one in stretches if not one.faster]
    if not others and last.like_a_term:
        return UNDETERMINED, f"{said}, and a term of it {axis}^{last.power}: larger {axis} would tell"
    if not others:
        return REFUTED, f"{said}, between {last.where}"
    if last.faster or half.faster:
        one = last if last.faster else half
        but = f"but {others[0]}, between {others[0].where}"
        return UNDETERMINED, f"{axis}: {one}, between {one.where}, {but}: larger {axis} would tell"
    allowed = last.expected
    if allowed.hi - allowed.lo > WIDEST and last.slope > allowed.lo + RESOLUTION:
        return UNDETERMINED, f"{said}, or anything from {allowed.lo:.2f} to {allowed.hi:.2f} as constants are"
    return CONFIRMED, said


def _ends_of_stretch(lines: Iterable[CaseResult], axis: str, claim: Polynomial) -> list[CaseResult] | None:
    """The lines along the axis, at least a factor of two apart and otherwise equal; None if there are fewer than two.

    Of several series the one with the largest claim is taken. Between closer sizes, memory allocated in blocks stays
    the same or jumps.
    """
    groups: dict[tuple[int, ...], dict[int, CaseResult]] = {}
    others = [name for name in (*_AXES.values(), "batch_size") if name != _AXES[axis]]
    for line in lines:
        group = groups.setdefault(tuple(getattr(line, name) for name in others), {})
        group[getattr(line, _AXES[axis])] = line
    series = [[group[at] for at in found] for group in groups.values() if len(found := differ_beyond_doubt(group)) > 1]
    return max(series, key=lambda ends: (claim(*size_of(ends[-1])), size_of(ends[-1])), default=None)


def _stretch_text(lines: Iterable[CaseResult], claim: Polynomial) -> str:
    """The smallest and largest number of measured words for each claimed word, as text."""
    ratios = [
        (line.peak_bytes or 0) / (_ITEM_BYTES[line.dtype] * line.batch_size * claim(*size_of(line)))
        for line in lines
        if claim(*size_of(line)) > 0
    ]
    if not ratios:
        return "it claims no memory"
    least, most = (f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}" for ratio in (min(ratios), max(ratios)))
    return f"{least if least == most else f'{least} to {most}'} words for each claimed"
