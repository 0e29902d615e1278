"""Exact laws of exact costs: whole coefficients that give FLOPs, operations or bytes to the last digit.

The law with the fewest terms that gives every point exactly, over products of powers of n, d, h and b. Unlike a fitted
law it may have a negative term: an Elman network's training does 12nd² − 2d². Found by least squares, believed only
after the integers have been put in.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from harness.scaling.law import Break, Coefficient, Law
from harness.scaling.rivals import leading
from harness.scaling.subsets import subset_fits
from harness.scaling.terms import AXES, Sizes, Term, design, varied

# d/h is the width of a head.
_POWERS = {"n": (0, 1, 2, 3), "d": (0, 1, 2, 3), "h": (0, 1, -1), "b": (0, 1)}
_MOST_TERMS = 4
_MOST_TERMS_ABOVE = 3
# Of more candidates, laws of one term fewer are looked through: there are too many.
_MOST_CANDIDATES = 40
# Halves and quarters come from triangles such as n(n + 1)/2.
_DENOMINATOR = 4
FEWEST_SIZES = 3
# A law of the largest sizes alone needs two of them.
_FEWEST_ABOVE = 2
# So many beginnings are tried, evenly over the sizes.
_MOST_STARTS = 5
# … and points to spare: of several beginnings that are tried one may fit by chance.
_SPARE_ABOVE = 2


def exact_law(sizes: Sizes, costs: Sequence[int], most: int = _MOST_TERMS, spare: int = 1) -> Law | None:
    """The exact law of whole `costs` at `sizes`; None where there is none of so many terms at `most`.

    Not determined where n takes fewer than three values, or an axis as many only as the law has powers of it, or where
    another law as short is exact too. `spare`: so many points more than terms there must be, so that chance does not
    make one.
    """
    axes = varied(sizes)
    terms = _candidates(axes)
    target = np.array([float(cost) for cost in costs])
    scale = np.where(target == 0, 1.0, np.abs(target))
    relative = design(terms, sizes) / scale[:, None]
    whole = [tuple(int(value) for value in size) for size in zip(sizes.n, sizes.d, sizes.h, sizes.b, strict=True)]
    if not any(costs):
        return _law((), (), axes, "")
    for size in range(1, min(most - (len(terms) > _MOST_CANDIDATES), len(target) - spare) + 1):
        found = []
        for members, values in subset_fits(relative, target / scale, size):
            rounded = [Fraction(round(value * _DENOMINATOR), _DENOMINATOR) for value in values]
            chosen = [terms[i] for i in members]
            if all(rounded) and _rises(chosen, rounded) and _gives(chosen, rounded, whole, costs):
                found.append((chosen, rounded))
        if found:
            chosen, rounded = min(found, key=lambda law: _oddity(law[1]))
            return _law(chosen, rounded, axes, _doubt(sizes, axes, [law[0] for law in found]))
    return None


def exact_pieces(sizes: Sizes, costs: Sequence[int]) -> Law | None:
    """The exact law of all points, else of those from the smallest n on from which there is one; then in `breaks`.

    A peak of memory is that of one phase at small n and of another at large n.
    """
    starts = np.unique(sizes.n)[: -_FEWEST_ABOVE + 1 or None]
    law = exact_law(sizes, costs)
    for start in starts[1 :: -(-(len(starts) - 1) // _MOST_STARTS) or 1]:
        if law is not None:
            break
        above = np.flatnonzero(sizes.n >= start)
        law = exact_law(sizes[above], [costs[int(i)] for i in above], _MOST_TERMS_ABOVE, _SPARE_ABOVE)
        law = replace(law, breaks=(Break(float(start), None),)) if law is not None else None
    return law


def _candidates(axes: Sequence[str]) -> list[Term]:
    powers = [_POWERS[axis] if axis in axes else (0,) for axis in AXES]
    every = (Term(n=n, d=d, h=h, b=b) for n, d, h, b in product(*powers))
    terms = [term for term in every if _occurs(term)]
    return terms + ([Term(log=1), Term(n=1, log=1)] if "n" in axes else [])


def _occurs(term: Term) -> bool:
    """Whether a layer may cost that: d³ for its weights alone, a head's width once for each position or pair."""
    return (term.d < 3 or (term.n == 0 and term.h == 0)) and (term.h >= 0 or (term.d == 1 and term.n in (1, 2)))


def _gives(
    terms: Sequence[Term], values: Sequence[Fraction], sizes: Sequence[tuple[int, ...]], costs: Sequence[int]
) -> bool:
    """Whether the law gives every cost exactly; a logarithm must be whole for that."""
    for (n, d, h, b), cost in zip(sizes, costs, strict=True):
        total = Fraction(0)
        for term, value in zip(terms, values, strict=True):
            part = value * n**term.n * d**term.d * Fraction(h) ** term.h * b**term.b
            if term.log:
                if n & (n - 1):
                    return False
                part *= n.bit_length() - 1
            total += part
        if total != cost:
            return False
    return True


def _oddity(values: Sequence[Fraction]) -> tuple[int, int]:
    """How unlike a count the coefficients are: negative ones and fractions first."""
    return sum(value < 0 for value in values) + sum(value.denominator > 1 for value in values), len(values)


def _rises(terms: Sequence[Term], values: Sequence[Fraction]) -> bool:
    """Whether what grows fastest with n is there and not taken away: no cost ends below nothing."""
    top = max(term.growth for term in terms)
    return any(value > 0 for term, value in zip(terms, values, strict=True) if term.growth == top)


def _doubt(sizes: Sizes, axes: Sequence[str], found: Sequence[Sequence[Term]]) -> str:
    """Why the law of the first found may be another; empty if it may not."""
    if not axes:
        return "measured at one size only"
    first = len(np.unique(sizes.axis(axes[0])))
    if first < FEWEST_SIZES:
        return f"{axes[0]} takes {first} values: a law needs {FEWEST_SIZES} at least"
    for axis in axes:
        distinct = len(np.unique(sizes.axis(axis)))
        if any(_powers(terms, axis) >= distinct for terms in found):
            return f"{axis} takes {distinct} values, and the law has as many powers of it"
        if len({leading(terms, axis) for terms in found}) > 1:
            return f"laws as short with other powers of {axis} give every point too"
    return ""


def _powers(terms: Sequence[Term], axis: str) -> int:
    """The most powers of an axis that stand beside the same powers of the others; a single one is no mixture."""
    beside: dict[Term, int] = {}
    for term in terms:
        others = replace(term, **({"n": 0, "log": 0} if axis == "n" else {axis: 0}))
        beside[others] = beside.get(others, 0) + 1
    return max((number for number in beside.values() if number > 1), default=0)


def _law(terms: Sequence[Term], values: Sequence[Fraction], axes: tuple[str, ...], doubt: str) -> Law:
    pairs = sorted(zip(terms, values, strict=True), key=lambda pair: (pair[0].growth, pair[0]))
    return Law(
        tuple(Coefficient(term, float(value), float(value), float(value)) for term, value in pairs),
        axes,
        not doubt,
        doubt,
        exact=True,
        covariance=np.zeros((len(pairs), len(pairs))),
        cv_error=0.0,
    )
