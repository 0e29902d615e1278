"""Judge claims of FLOPs, sequential depth, path length and memory by counts that repeat exactly.

FLOPs must equal the claim to the last digit. The other claims are orders. An order leaves the constant of each of its
terms free, so its scaling exponent is a range.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from types import SimpleNamespace

import numpy as np

from harness.core.model import formatting, own_axes
from harness.core.model.polynomial import Polynomial, Size, Term, constant, own_letter
from harness.core.model.sequence_lengths import claimed_flops, is_summed
from harness.core.model.sweep_axes import device_kind
from harness.core.results.columns import CaseResult
from harness.study.laws.enough_sizes import FEWEST_SIZES
from harness.study.laws.integer_laws import exact_law, exact_pieces
from harness.study.laws.laws import Floats, Law, Range, Sizes, signed_exponent
from harness.study.laws.series import exponent_at_end, series_along, sizes_by_letter, sizes_factor_two_apart

CONFIRMED, REFUTED, UNDETERMINED = "confirmed", "refuted", "undetermined"
# Nobody asked for what the claim needs. Undetermined means that it was measured and the data do not decide.
NOT_MEASURED = "not measured"

# The constants of a claim's terms are free, but one may be at most this many times another. One word or one
# multiply-add more or less makes such a difference.
FREE_FACTOR = 2.0
# Tolerance of an exponent. A claim leaves out terms of lower order, which shift the exponent by this much.
RESOLUTION = 0.1
# A larger share of the memory, on top of what the claim explains, may be a faster term that is still small.
_EXCESS = 0.001


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim (confirmed, refuted or undetermined), what was measured, and the reason."""

    measured: str
    verdict: str
    reason: str


def exponent_at(claim: Polynomial, axis: str, size: Size) -> Range:
    """Return d log claim / d log axis at a size, and its range over the free constants."""
    n, d, h, b, own = size
    at = SimpleNamespace(n=n, d=d, h=float(h), b=b, log=math.log2(max(n, 2)), own=dict(own))
    terms = _growing_terms(claim)
    values = np.array([float(claim.coefficients.get(term, 1) * term(at)) for term in terms])
    powers = np.array([term.exponent(axis, n) for term in terms])
    # The exponent is a ratio of sums that are linear in the constants, so its extremes lie at the corners.
    side = math.sqrt(FREE_FACTOR)
    free = np.array([[1.0] * len(terms), *product((1 / side, side), repeat=len(terms))])
    found = free @ (values * powers) / (free @ values)
    return Range(float(found[0]), float(found.min()), float(found.max()))


def _growing_terms(of: Polynomial) -> list[Term]:
    """The positive terms. A subtracted one, as in 12nd² − 2d², is of lower order. A sum of 0 counts as constant."""
    return [term for term, value in of.coefficients.items() if value > 0] or [Term()]


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
        return Judgement("", UNDETERMINED, f"its FLOPs are not known: {why}")
    plain = [
        line
        for line in counted
        if device_kind(line.device) != "cuda" or not (line.d_model // line.num_heads) % _PADDED_TO
    ]
    if not plain:
        return Judgement("", UNDETERMINED, "on a GPU its head sizes are padded to a multiple of 8, and counted so")
    last = plain[-1]
    measured = f"{last.flops:,} at n = {last.seq_len}, d = {last.d_model}"
    if law is not None and law.exact and law.determined and not law.breaks:
        measured = str(law)
    claiming = [(line, claimed) for line in plain if (claimed := _claimed(line, claim)) is not None]
    if not claiming:
        return Judgement(measured, UNDETERMINED, "no case that was counted claims a whole number of FLOPs")
    for line, claimed in claiming:
        # A causal mask may leave out up to half of it: a triangle of a square.
        work = line.flops or 0
        is_triangle = is_masked(line) and line.mask == "causal" and work <= claimed <= 2 * work
        if not is_triangle and claimed not in (work, line.flops_full):
            which = ", ".join(f"{axis} = {size:g}" for axis, size in sizes_by_letter(line.size).items() if axis != "b")
            return Judgement(measured, REFUTED, f"at {which} it claims {claimed:,} FLOPs and does {line.flops:,}")
    cases = f"{len(plain)} cases" if len(plain) > 1 else "the one case measured"
    if len(claiming) < len(plain):
        cases = f"{len(claiming)} of {cases}, the others claim no whole number"
    text = f"to the last digit in {cases}"
    if any(claimed not in (line.flops, line.flops_full) for line, claimed in claiming):
        text = f"between a half and all of what is claimed in {cases}: what the mask hides is left out"
    return Judgement(measured, CONFIRMED, text)


def is_masked(line: CaseResult) -> bool:
    """Whether a mask changes the work. A decoded token has no later tokens to hide, packed sequences no padding."""
    is_packed = line.mask == "padding" and is_summed(line.lengths_as)
    return line.mask != "none" and line.mode != "decode" and not is_packed


def _claimed(line: CaseResult, claim: Polynomial | None) -> int | None:
    if claim is None:
        return line.flops_claimed
    lengths = [line.seq_len] * line.batch_size
    if is_summed(line.lengths_as):
        if line.sequence_lengths is None:
            return line.flops_claimed
        lengths = list(map(int, line.sequence_lengths.split(",")))
    return claimed_flops(claim.at(line.own_size), lengths, line.d_model, line.num_heads)


def judge_depth(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge the claimed sequential depth by its order in n; constants are free. Along no axis may it grow faster."""
    found = _depth_orders(lines, claim)
    along_n = [one for one in found if one.axis == "n"]
    if not along_n:
        known = [f"{line.depth} at n = {line.seq_len}" for line in lines if line.depth is not None]
        return Judgement(known[-1] if known else "", UNDETERMINED, "its depth is not known at two n or more")
    most = max(line.depth_declared or 0 for line in lines)
    unseen = f" (up to {most} of these operations are declared by fused kernels and cannot be observed)"
    declared = unseen if most else ""
    longest = max(along_n, key=lambda one: (not one.doubt, len(one.depths)))
    one = min((order for order in found if order.beside), key=lambda order: bool(order.doubt), default=longest)
    if not one.beside and not one.doubt:
        return Judgement(one.measured, CONFIRMED, f"{one.ends}{declared}")
    power, log = claim.growth(one.axis)
    beside = ", where the claim is a constant"
    if power or log:
        claimed = Term.of({one.axis: power, "log": log})
        beside = f": exponent {exponent_at_end(one.depths):.2f} where the claim is of order {claimed}"
    verdict = UNDETERMINED if one.doubt else REFUTED
    return Judgement(one.measured, verdict, f"{one.ends}{one.doubt or beside}{declared}")


# Why no path was found is in `facts_unknown`, behind this.
_PATH = "path: "


def judge_path(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge the claimed path length from the sequential depth, which is an upper bound.

    A claim says at most, and no path from one position to another is longer than the longest chain of operations. So
    the depth confirms a claim of its own order and refutes a claim of a higher order, not of a lower one. Nothing is
    confirmed without a path.
    """
    one = judge_depth(lines, claim)
    if not one.measured:
        return one
    verdict, reason = one.verdict, f"upper bound: the longest dependency chain, {one.reason}"
    unknown = [str(line.facts_unknown) for line in lines if _PATH in str(line.facts_unknown)]
    if unknown and verdict == CONFIRMED:
        verdict, reason = UNDETERMINED, unknown[-1].partition(_PATH)[2].partition(";")[0]
    elif verdict != CONFIRMED and any(order.beside >= 0 for order in _depth_orders(lines, claim)):
        verdict, reason = UNDETERMINED, f"{reason}; that it is shorter cannot be seen from outside"
    return Judgement(f"at most {one.measured}", verdict, reason)


# Why a depth below a claimed log n does not refute the claim.
_HIDES_LOG = ": each operation of torch counts as one, and a sum or a cumsum may take log n steps inside"
# Why a depth that is constant or of order log n does not refute a claim of a power of n, up to `_BLOCK` tokens.
_HIDES_N = ": a layer that works block by block may have had one block, so larger n would tell"
_BLOCK = 512
# Why depth that grows faster than claimed does not refute the claim below `_BLOCK` tokens, nor memory below twice as
# many, if it grows by up to one power of n more.
_HIDES_WINDOW = f": larger n than {_BLOCK} would tell, as a window or block may end there"
# The law of a depth that rises by an operation in each of so many tokens has whole coefficients.
_PARTS = 64
# A depth of another order bends away from the claimed one by a power of n that lasts: at least this share of the one
# before. A window, an offset, a block and a term of lower order bend it once, or less and less.
_LASTING = 0.85


@dataclass(frozen=True)
class _DepthOrder:
    """The depth by size along one axis, and its order beside a claimed one: −1 if lower, 0 if equal, 1 if higher.

    `doubt` says why larger sizes may show another order; it is empty if they cannot.
    """

    axis: str
    depths: Mapping[int, int]
    measured: str
    beside: int
    doubt: str = ""

    @classmethod
    def of(cls, axis: str, depths: Mapping[int, int], claim: Polynomial) -> "_DepthOrder":
        """Judge by the exact law. Without a determined one, judge by the measured exponent."""
        claimed, measured = claim.growth(axis), f"{depths[max(depths)]} at {axis} = {max(depths)}"
        # Rounds of log n are a whole number: they are those of the next power of two.
        for sizes in (depths, [1 << (n - 1).bit_length() for n in depths]):
            law = exact_law(Sizes.of((n, 1, 1, 1) for n in sizes), [_PARTS * depth for depth in depths.values()])
            if law is None or not law.determined:
                continue
            order = law.polynomial.growth("n")
            if sizes is depths or order == (0, 1):
                measured = str(law.polynomial.by_growth() * constant(Fraction(1, _PARTS))).replace("n", axis)
                beside, doubt = (order > claimed) - (order < claimed), ""
                break
        else:
            beside, doubt = _compare_exponent(axis, depths, *claimed)
        if beside < 0 and not claimed[0]:
            doubt = _HIDES_LOG
        elif beside < 0 and max(depths) <= _BLOCK and exponent_at_end(depths) < 2 * RESOLUTION:
            doubt = doubt or _HIDES_N
        elif beside > 0 and axis == "n" and max(depths) < _BLOCK:
            doubt = doubt or _HIDES_WINDOW
        return cls(axis, depths, measured, beside, doubt)

    @property
    def ends(self) -> str:
        """The depth at the smallest and the largest size, as text."""
        small, large = min(self.depths), max(self.depths)
        if len(set(self.depths.values())) == 1:
            return f"{self.depths[small]} at every {self.axis} from {small} to {large}"
        return f"{self.depths[small]} at {self.axis} = {small} and {self.depths[large]} at {self.axis} = {large}"


def _depth_orders(lines: Sequence[CaseResult], claim: Polynomial) -> list[_DepthOrder]:
    """The order of the depth along n where it is known at two or more n, and along other axes where it is too high."""
    known = [line for line in lines if line.depth is not None]
    axes = sizes_by_letter(known[0].size) if known else ()
    series = [(axis, by) for axis in axes for by in series_along(known, axis) if len(by) > 1]
    orders = [_DepthOrder.of(axis, {at: line.depth or 0 for at, line in by.items()}, claim) for axis, by in series]
    return [order for order in orders if order.axis == "n" or order.beside > 0]


def _compare_exponent(axis: str, depths: Mapping[int, int], power: int, log: int) -> tuple[int, str]:
    """Compare the exponent of a depth with the claimed one, as `_DepthOrder`. The constants are free, however large.

    To refute it, the rises between four sizes by the unit of the claimed order must grow, or fall, and go on so as a
    power of n does. The unit of a constant is log n, and rises by it need not grow.
    """
    ends = sizes_factor_two_apart(depths)
    orders = {n: n**power * (n - 1).bit_length() ** log for n in depths}
    above = exponent_at_end(depths) - exponent_at_end(orders)
    beside = (above > RESOLUTION) - (above < -RESOLUTION)
    # A constant cancels out of these differences. A step more or less is a matter of rounding.
    rises, steps = (np.diff([of[n] for n in ends[-3:]]) for of in (depths, orders))
    if not power:
        beside = max(log, any(rises > 0))
    if len(ends) < FEWEST_SIZES:
        return beside, f": three {axis}, each at least twice the one before, would tell its order"
    if not beside:
        is_uneven = power and ((rises - 1) / steps).max() > ((rises + 1) / steps).min()
        return beside, ", and not in proportion: larger n would tell" if is_uneven else ""
    last = np.array(sizes_factor_two_apart(depths, 1.5)[-4:])
    rises = np.diff([depths[n] for n in last])
    if len(rises) < FEWEST_SIZES:
        return beside, f": four {axis}, each at least 1.5 times the one before, would tell its order"
    steps = np.diff(last ** float(power) * np.log2(last) ** (log or not power))
    rounding = np.multiply.outer((0, beside > 0), (1, -1, 1))
    # A step of rounding may make lasting growth ease.
    slopes = np.log(np.maximum(rises + rounding, 1e-9) / steps)
    (first, second), (least, most) = 2 * beside * np.diff(slopes) / np.log(last[2:] / last[:-2])
    is_bent = min(first, second) > (RESOLUTION if power + log else -1) and most >= max(_LASTING * least, 0)
    is_lasting = is_bent and (rises[1] > 0 if beside > 0 else second <= first / _LASTING)
    return beside, "" if is_lasting else ", and its growth is not steady: larger n would tell"


_ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def judge_memory(lines: Sequence[CaseResult], claim: Polynomial) -> Judgement:
    """Judge a claim of memory by its order, which is an upper bound.

    The exact law of the peak bytes decides. Without a determined one, the measured exponents do. If some axis of the
    claim was not varied, the claim is confirmed only if its terms without that axis already bound the memory. An own
    axis of one size counts as a constant. The reason of a confirmed claim names the sizes of axes that were not varied.
    """
    known = [line for line in lines if line.peak_bytes]
    if any(line.allocates_outside_torch for line in lines):
        return Judgement("", UNDETERMINED, "its peak memory is not known: it allocates memory outside torch")
    if not known:
        return Judgement("", UNDETERMINED, "its peak memory is not known")
    own = own_axes.varying([line.own_size for line in known])
    claim = claim.at(tuple((letter, size) for letter, size in known[0].own_size if letter not in own))
    axes = (*"ndh", *own)
    along = {axis: found for axis in axes if (found := _exponents(known, axis, claim))}
    if not along:
        return Judgement("", UNDETERMINED, "no size was varied by a factor of two")
    measured, verdict, reason = _judge_order(known, along, claim, axes)
    if verdict == REFUTED and max(line.seq_len for line in known) < 2 * _BLOCK:
        _, verdict, _ = _judge_order(known, along, claim * own_letter("n"), axes)
        if verdict != REFUTED:
            verdict, reason = UNDETERMINED, f"{reason}{_HIDES_WINDOW}"
    unvaried = [axis for axis in axes if axis not in along]
    doubted = [axis for axis in unvaried if claim.growth(axis)[0] > 0]
    of_varied = [term for term in claim.terms if not any(term.power(axis) > 0 for axis in doubted)]
    rest = Polynomial({term: claim.coefficients[term] for term in of_varied})
    if doubted and verdict != REFUTED and not (rest.terms and judge_memory(lines, rest).verdict == CONFIRMED):
        doubts = (f"{axis} was not varied by a factor of two" for axis in doubted)
        verdict, reason = UNDETERMINED, "; ".join([*doubts, reason])
    alone = _alone(known, along if verdict == CONFIRMED else axes)
    return Judgement(measured, verdict, f"{reason}{alone}; {_words_text(known, claim)}")


def _alone(lines: Sequence[CaseResult], varied: Iterable[str]) -> str:
    """The sizes along the axes that were not varied, as text: nothing is known of others. A claim is of any b."""
    text, sizes = "", [sizes_by_letter(line.size) for line in lines]
    for axis in (axis for axis in sizes[0] if axis not in ("b", *varied)):
        values = sorted({size[axis] for size in sizes if axis in size})
        text += f", at {axis} = {formatting.listed([*map('{:g}'.format, values)])} alone"
    return text


def _judge_order(
    lines: Sequence[CaseResult], along: Mapping[str, Sequence[float]], claim: Polynomial, axes: Sequence[str]
) -> tuple[str, str, str]:
    """The measured growth of memory, the verdict on a claim of its order, and the reason.

    The exact law refutes nothing by the powers of an axis of which it knows two values.
    """
    sizes = Sizes.of(line.size for line in lines)
    bounds = _growths(_growing_terms(claim), sizes.n.max(), axes[3:])
    law = exact_pieces(sizes, [line.peak_bytes or 0 for line in lines])
    if law is not None and law.determined and {*law.varied} <= {*along, "b"}:
        measured = f"{law} bytes from n = {law.breaks[-1].n:g} on" if law.breaks else f"{law} bytes"
        terms = _growing_terms(law.polynomial)
        if all(_is_within(growth, bounds) for growth in _growths(terms, sizes.n.max(), axes[3:])):
            return measured, CONFIRMED, "no term grows faster than the claim"
        told = [term.along({*law.varied} - law.trends.keys()) for term in terms]
        for term, growth in zip(told, _growths(told, sizes.n.max(), axes[3:]), strict=True):
            if not _is_within(growth, bounds):
                return measured, REFUTED, f"{term} grows faster than the claim"
    measured = "·".join(f"{axis}^{signed_exponent(found[0])}" for axis, found in along.items())
    verdict, reason = _compare_exponents(along, bounds, axes)
    # Two sizes cannot tell a term of the order of an axis that is not in the claim from a faster one on a constant.
    excess = {axis: last - claim.growth(axis)[0] for axis, (last, *_) in along.items()}
    growing = [axis for axis in excess if RESOLUTION < excess[axis] < 1 - RESOLUTION]
    few = [axis for axis in ("n", *growing) if len(np.unique(sizes.axis(axis))) < FEWEST_SIZES]
    if verdict == CONFIRMED and few:
        verdict, reason = UNDETERMINED, f"fewer than {FEWEST_SIZES} values of {few[0]} do not tell how it grows"
    # A claimed term that falls, as d²/h does, makes a sum steeper.
    steep = (
        _is_steepening(lines, axis, power)
        for axis, power in zip(axes, bounds.max(axis=0), strict=True)
        if all(term.power(axis) >= 0 for term in claim.terms)
    )
    if verdict == CONFIRMED and any(steep):
        verdict, reason = UNDETERMINED, f"{reason}: larger sizes would tell"
    return measured, verdict, reason


def _growths(terms: Iterable[Term], n: float, own: Sequence[str]) -> Floats:
    """The growth of terms at `n`: exponents along n, d, h with d, and `own` letters. They bound it, as 1 ≤ h ≤ d."""
    log = math.log(max(n, 2))
    return np.array([(term.n + term.log / log, term.d, term.d + term.h, *map(term.power, own)) for term in terms])


def _is_within(growth: Floats, bounds: Floats, tolerance: float = 1e-9) -> bool:
    """Whether a growth is at most that of some sum of the terms with these bounds, as `_growths` returns both.

    The growth of a sum is a weighted mean of the growths of its terms. All means of two terms are tried.
    """
    weights = np.linspace(0, 1, 61)[:, None]
    means = (weights * one + (1 - weights) * other for one, other in combinations_with_replacement(bounds, 2))
    return any((mean >= growth - tolerance).all(axis=1).any() for mean in means)


def _compare_exponents(along: Mapping[str, Sequence[float]], bounds: Floats, axes: Sequence[str]) -> tuple[str, str]:
    """The verdict on a claim with these bounds and the reason, from the measured exponents along each axis.

    A single step, such as a workspace, is not growth: some stretches of sizes do not contain it. Growth that eases is
    none either: no sum of powers does so, but a window that ends does.
    """
    n, d, h, *others = (np.array([*along.get(axis, [0.0])] * 3)[:3] for axis in axes)
    growths = np.stack([n, d, d + h, *others], axis=1)
    ends = {axis: map(signed_exponent, sorted({min(found), max(found)})) for axis, found in along.items()}
    text = ", ".join(f"{' to '.join(dict.fromkeys(both))} along {axis}" for axis, both in ends.items())
    text = f"measured exponents {text}"
    tolerance = RESOLUTION
    if any(len(found) == 1 for found in along.values()):
        # Two sizes do not show a faster term that is still small. A step may raise the exponent along n all the same.
        tolerance = _EXCESS
        growths[:, 0] = np.minimum(growths[:, 0], np.maximum(growths[:, 0] - RESOLUTION, bounds[:, 0].max()))
    if all(_is_within(growth, bounds, tolerance) for growth in growths[[0, -1]]):
        return CONFIRMED, text
    is_faster = growths.min(axis=0) > bounds.max(axis=0) + RESOLUTION
    faster = [axis for axis, is_faster in zip(axes, is_faster, strict=True) if is_faster]
    steady = [axis for axis in faster if len(along.get(axis, ())) > 1]
    lasting = [axis for axis in steady if along[axis][0] > along[axis][1] - RESOLUTION / 5]
    if lasting:
        return REFUTED, f"{text}: with {lasting[0]} it grows faster than the claim"
    doubt = "larger sizes would tell" if steady or not faster else f"two {faster[0]} cannot tell growth from a step"
    return UNDETERMINED, f"{text}: {doubt}"


def _is_steepening(lines: Iterable[CaseResult], axis: str, power: float) -> bool:
    """Whether the memory of any series, against this power of an axis, is steeper at its end than before.

    A faster term makes it so, however small the term is and however large a constant. A step raises one slope, which
    hides a rise of the next. So the last slope must be the lowest, or equal the one before. The first starts at 0.
    """
    for series in series_along(lines, axis):
        sizes = sizes_factor_two_apart(series)
        costs = np.array([0, *(series[size].peak_bytes or 0 for size in sizes)])
        steps = np.diff(np.array([0, *sizes]) ** max(power, _EXCESS))  # a power of 0 has no slopes
        *before, last = np.diff(costs) / steps
        tolerance = _EXCESS * costs[-1] / steps[-1]
        if before and last > min(before) + tolerance and abs(last - before[-1]) > tolerance:
            return True
    return False


def _exponents(lines: Iterable[CaseResult], axis: str, claim: Polynomial) -> list[float]:
    """The measured exponents between the two largest sizes and, with more than two sizes, in two further stretches.

    These are the stretch before and the upper half of all sizes, which begins at or below the geometric middle and
    holds at least three sizes. The sizes are at least a factor of two apart: between closer sizes, memory allocated in
    blocks stays the same or jumps. Of several series the one with the largest claim is taken. Empty without two sizes.
    """
    series = [
        [by[at] for at in found] for by in series_along(lines, axis) if len(found := sizes_factor_two_apart(by)) > 1
    ]
    if not series:
        return []
    ends = max(series, key=lambda ends: (claim.value(*ends[-1].sequence_size), ends[-1].sequence_size))
    at, costs = np.log([(sizes_by_letter(line.size)[axis], line.peak_bytes or 1) for line in ends]).T
    half = max((i for i in range(len(ends) - 2) if 2 * at[i] <= at[0] + at[-1]), default=0)
    pairs = [(-2, -1), (-3, -2), (half, -1)] if len(ends) > 2 else [(-2, -1)]
    return [float((costs[j] - costs[i]) / (at[j] - at[i])) for i, j in pairs]


def _words_text(lines: Iterable[CaseResult], claim: Polynomial) -> str:
    """The smallest and largest number of measured words for each claimed word, as text."""
    claimed = [(line, line.batch_size * float(claim.value(*line.sequence_size))) for line in lines]
    ratios = [(line.peak_bytes or 0) / _ITEM_BYTES[line.dtype] / words for line, words in claimed if words > 0]
    if not ratios:
        return "it claims no memory"
    least, most = (f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}" for ratio in (min(ratios), max(ratios)))
    return f"{least if least == most else f'{least} to {most}'} words for each claimed"
