"""Exact laws of exact costs: rational coefficients that give FLOPs, operations or bytes to the last digit.

The law is the one with the fewest terms that gives every point exactly. Its terms are products of powers of n, d, h
and b, and of a layer's own letters. Unlike a fitted law, an exact law may have a negative term: training an Elman
network does 12nd² − 2d² FLOPs.
Least squares proposes the coefficients. They are accepted only after exact arithmetic has reproduced every cost.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from operator import methodcaller

import numpy as np

from harness.core.model.polynomial import AXES, Polynomial, Size, Term, leading, parse

from .enough_sizes import coupling, powers_beside, too_few_sizes, too_many_powers
from .fit_law import subsets
from .laws import Break, Coefficient, Floats, Law, Sizes, design, rational, varying_axes

# d³ occurs only without n and h, for the weights. A head's width d/h occurs once for each position or pair.
_TERMS = parse(
    "1 + h + d + hd + d² + hd² + d³ + n + hn + nd + hnd + nd/h + nd² + hnd² + n² + hn² + n²d + hn²d + n²d/h + n²d² "
    "+ hn²d² + n³ + hn³ + n³d + hn³d + n³d² + hn³d² + log n + n·log n + d·log n + nd·log n"
).terms
# The factors of each power of an own letter w: work within windows or states, the corners of a band, whole blocks.
_OWN_FACTORS = {
    1: parse("1 + h + d + hd + d² + hd² + n + hn + nd + hnd + nd² + hnd²").terms,
    2: parse("1 + h + d + hd").terms,
    -1: parse("n + hn + nd + hnd + nd² + hnd² + n² + hn² + n²d + hn²d + n²d² + hn²d²").terms,
}
# Those of the length m of a source: work for each of its tokens, or with each token of the layer's own input.
_SOURCE_FACTORS = {1: [*_OWN_FACTORS[1], *parse("d/h + nd/h").terms]}
_MOST_TERMS = 4
_MOST_TERMS_ABOVE = 3
# With more candidate terms than this, laws may have one term fewer: there would be too many subsets.
_MOST_CANDIDATES = 40
# Coefficients may be halves and quarters, which come from triangles such as n(n + 1)/2, and eighths, which are bits.
# Windows and chunks that divide every n are denominators too, from so many n on: n mod 7 is n/64 at 64, 128 and 256.
_DENOMINATOR, _FEWEST_OF_WINDOWS = 8, 5
# The whole numbers up to here are floats.
_LARGEST = 2**53
# A law of only the largest sizes needs at least three of them: two values of n tell none of its powers.
_FEWEST_ABOVE = 3
# The largest distance of exact fits, in relative units.
_EXACT = 1e-8
# At most this many starting sizes are tried, chosen evenly over the measured n.
_MOST_STARTS = 8
# Such a law needs two points more than terms, because one of several starts may fit by chance.
_SPARE_ABOVE = 2
# A law with a logarithm and a negative term, or another power of n, needs this many sizes more than terms in n: many
# sequences follow one by chance, as rows of √n do.
_SPARE_WITH_LOG = 2


def exact_law(sizes: Sizes, costs: Sequence[int], most: int = _MOST_TERMS, spare: int = 1) -> Law | None:
    """Find the exact law of integer `costs` at `sizes`; None if no law of at most `most` terms is exact.

    The points must outnumber the terms by `spare`, so that no law fits by chance. Costs above 2⁵³ have no exact law:
    floats do not tell their last digits.

    The law is undetermined in any of four cases. No axis varies, or the first varied one takes fewer than three
    values, or none that is twice another. A law with a logarithm and a negative term, or another power of n, has not
    two sizes more than terms in n. An axis takes no more values than the law has powers of it. An equally short law
    with other leading powers is exact too.
    """
    axes = varying_axes(sizes)
    terms = _candidates(axes)
    target = np.array(costs, dtype=float)
    scale = np.where(target == 0, 1.0, np.abs(target))
    relative = design(terms, sizes) / scale[:, None]
    axes_of_points = zip(sizes.n, sizes.d, sizes.h, sizes.b, *sizes.own.values(), strict=True)
    whole = [
        (int(n), int(d), int(h), int(b), tuple(zip(sizes.own, map(float, own), strict=True)))
        for n, d, h, b, *own in axes_of_points
    ]
    if not any(costs):
        return _law((), (), axes, "")
    if max(costs) > _LARGEST:
        return None
    lengths = {size[0] for size in whole}
    denominator = math.lcm(_DENOMINATOR, math.gcd(*lengths) if len(lengths) >= _FEWEST_OF_WINDOWS else 1)
    for size in range(1, min(most - (len(terms) > _MOST_CANDIDATES), len(target) - spare) + 1):
        found = []
        for members, values in subset_fits(relative, target / scale, size):
            rounded = [rational(round(value * denominator) / denominator) for value in values]
            chosen = [terms[i] for i in members]
            if all(rounded) and _reproduces(chosen, rounded, whole, costs):
                found.append((chosen, rounded))
        if found:
            # The coefficients that are least unlike counts: few negative ones and fractions.
            chosen, rounded = min(found, key=lambda law: sum((value < 0) + (value.denominator > 1) for value in law[1]))
            law = _law(chosen, rounded, axes, _uncertainty(sizes, axes, found))
            in_law = [axis for axis in axes[1:] if any(map(methodcaller("power", axis), chosen))]
            return law.open_along({axis: too_few_sizes(sizes, axis, True) for axis in in_law})
    return None


def exact_pieces(sizes: Sizes, costs: Sequence[int]) -> Law | None:
    """Find the exact law of all points, or else of the points from some n on; None if there is none.

    That n is the smallest start tried from which a law is exact, and it is listed in `breaks`. Such laws occur because
    different phases of a call set the peak memory at small and at large n.
    """
    starts = np.unique(sizes.n)[: -_FEWEST_ABOVE + 1]
    if law := exact_law(sizes, costs):
        return law
    for start in starts[1 :: -(-(len(starts) - 1) // _MOST_STARTS) or 1]:
        above = np.flatnonzero(sizes.n >= start)
        if law := exact_law(sizes[above], [costs[int(i)] for i in above], _MOST_TERMS_ABOVE, _SPARE_ABOVE):
            return replace(law, breaks=(Break(float(start)),))
    return None


def subset_fits(design: Floats, target: Floats, size: int) -> list[tuple[tuple[int, ...], Floats]]:
    """Return every subset of `size` columns that gives the target up to rounding, with its coefficients.

    Coefficients may have either sign.
    """
    scale = np.linalg.norm(design, axis=0)
    unit = design / scale
    gram, moment = unit.T @ unit, unit.T @ target
    chosen = subsets(design.shape[1], size)
    # A tiny ridge keeps systems of dependent terms solvable. The solutions are checked exactly below.
    grams = gram[chosen[:, :, None], chosen[:, None, :]] + 1e-13 * np.eye(size)
    solved = np.linalg.solve(grams, moment[chosen][..., None])[..., 0]
    left = float(target @ target) - (solved * moment[chosen]).sum(1)
    close = np.nonzero(left < 1e-6 * len(target))[0]  # coarse, because `left` is the difference of two large numbers
    found = []
    for which in close:
        columns = list(chosen[which])
        exact, *_ = np.linalg.lstsq(unit[:, columns], target, rcond=None)
        if np.abs(unit[:, columns] @ exact - target).max() < _EXACT:
            found.append((tuple(int(i) for i in columns), exact / scale[columns]))
    return found


def _candidates(axes: Sequence[str]) -> list[Term]:
    batches = (0, 1) if "b" in axes else (0,)
    terms = [replace(term, b=b) for term in _TERMS if term.along(axes) == term for b in batches]
    for own in (axis for axis in axes if axis not in AXES):
        for power, factors in (_SOURCE_FACTORS if own == "m" else _OWN_FACTORS).items():
            terms += [Term.of({**term.along(axes).powers, "b": b, own: power}) for term in factors for b in batches]
    return list(dict.fromkeys(terms))


def _reproduces(terms: Sequence[Term], values: Sequence[Fraction], sizes: Sequence[Size], costs: Sequence[int]) -> bool:
    """Whether the law gives every cost exactly. With a log term, every n must be a power of two.

    A term that grows fastest with n must be positive. Otherwise costs would become negative at large n.
    """
    if max((term.growth(), value) for term, value in zip(terms, values, strict=True))[1] <= 0:
        return False
    if any(term.log for term in terms) and any(size[0] & (size[0] - 1) for size in sizes):
        return False
    law = Polynomial(dict(zip(terms, values, strict=True)))
    return all(law.value(*size) == cost for size, cost in zip(sizes, costs, strict=True))


def _uncertainty(sizes: Sizes, axes: Sequence[str], found: Sequence[tuple[Sequence[Term], Sequence[Fraction]]]) -> str:
    """Why the exact law may not be the true one; empty if nothing speaks against it.

    `found` holds the terms and coefficients of every exact law of the same length.
    """
    if not axes:
        return "measured at one size only"
    if few := too_few_sizes(sizes, axes[0], True):
        return few
    if max(sizes.axis(axes[0])) < 2 * min(sizes.axis(axes[0])):
        return f"no {axes[0]} is twice another: steps at powers of two do not show"
    needed = 0
    for terms, values in found:
        if any(term.log for term in terms) and (min(values) < 0 or len({term.n for term in terms}) > 1):
            needed = max(needed, powers_beside(terms, "n") + _SPARE_WITH_LOG)
    if (lengths := len(np.unique(sizes.n))) < needed:
        return f"n takes {lengths} values: this law with a logarithm needs {needed} at least"
    for axis in axes:
        if together := coupling(sizes, axis):
            return together
        if many := "".join({too_many_powers(terms, axis, sizes) for terms, _ in found}):
            return many
        if len({leading(terms, axis) for terms, _ in found}) > 1:
            return f"laws as short with other powers of {axis} give every point too"
    return ""


def _law(terms: Sequence[Term], values: Sequence[Fraction], axes: tuple[str, ...], doubt: str) -> Law:
    pairs = sorted(zip(terms, values, strict=True))
    coefficients = tuple(Coefficient(term, *[float(value)] * 3) for term, value in pairs)
    return Law(coefficients, axes, not doubt, doubt, exact=True, cv_error=0.0)
