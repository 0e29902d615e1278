"""Which sizes are enough to tell a law: how many along each axis, and which axes vary only together."""

from collections import Counter
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from harness.core.model.formatting import counted
from harness.core.model.polynomial import Term

from .laws import Sizes, varying_axes

# A law needs at least this many sizes: with two, any law of two terms fits.
FEWEST_SIZES = 3
# With fewer sizes than this, noisy costs decide nothing about terms that no exact count tells.
_FEWEST_UNPRESUMED = 5


def powers_beside(terms: Iterable[Term], axis: str) -> int:
    """Return the largest number of terms that differ only in their power of an axis; 0 if no two do."""
    beside = Counter(term.without(axis) for term in terms)
    return max((number for number in beside.values() if number > 1), default=0)


def coupled_axes(sizes: Sizes) -> list[tuple[str, str]]:
    """Return the pairs of axes that vary only together, as n and b at a constant n·b."""
    pairs = []
    for axis, other in combinations(varying_axes(sizes), 2):
        values, others = sizes.axis(axis), sizes.axis(other)
        together = set(zip(values, others, strict=True))
        if len(together) == len(set(values)) == len(set(others)):
            pairs.append((axis, other))
    return pairs


def coupling(sizes: Sizes, axis: str) -> str:
    """Why the exponent along an axis cannot be told: another one varies only with it. Empty if none does."""
    others = [other for pair in coupled_axes(sizes) if axis in pair for other in pair if other != axis]
    return f"{axis} and {others[0]} vary only together: vary one alone" if others else ""


def too_few_sizes(sizes: Sizes, axis: str, is_presumed: bool) -> str:
    """Why the sizes are too few for any law along the axis; empty if they are enough. Exact counts presume terms."""
    distinct = len(np.unique(sizes.axis(axis)))
    values = f"{axis} takes {counted(distinct, 'value')}"
    if distinct < FEWEST_SIZES:
        return f"{values}: a law needs {FEWEST_SIZES} at least"
    if distinct < _FEWEST_UNPRESUMED and not is_presumed:
        return f"{values}: a law without terms of exact counts needs {_FEWEST_UNPRESUMED} at least"
    return coupling(sizes, axis)


def too_many_powers(terms: Iterable[Term], axis: str, sizes: Sizes) -> str:
    """Why the axis takes too few values for these terms: as few as they have powers of it. Empty if it takes more."""
    distinct = len(np.unique(sizes.axis(axis)))
    has_many = powers_beside(terms, axis) >= distinct
    return f"{axis} takes {distinct} values, and the law has as many powers of it" if has_many else ""
