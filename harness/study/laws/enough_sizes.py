"""Which sizes are enough to tell a law: how many along each axis, and which axes vary only together.

Curves with a free power show which other exponents the points leave open.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import fdtri

from harness.core.model.formatting import counted, listed
from harness.core.model.polynomial import Term
from harness.core.stats.interval import CONFIDENCE

from .laws import ROUNDING, Floats, Sizes, design, largest, varying_axes

# A law needs at least this many sizes: with two, any law of two terms fits.
FEWEST_SIZES = 3
# With fewer sizes than this, noisy costs decide nothing about terms that no exact count tells.
_FEWEST_UNPRESUMED = 5


def powers_beside(terms: Iterable[Term], axis: str) -> int:
    """Return the largest number of terms that differ only in their power of an axis; 0 if no two do."""
    beside = Counter(term.without(axis) for term in terms)
    return max((number for number in beside.values() if number > 1), default=0)


def rank(sizes: Iterable[Sequence[float]]) -> int:
    """Return how many axes of the sizes vary freely: two of n, d and b at a constant n·d/b."""
    logs = np.log([*sizes])
    return int(np.linalg.matrix_rank(logs - logs[0], ROUNDING))


def coupled_axes(sizes: Sizes) -> list[tuple[str, ...]]:
    """Return the pairs of axes that vary only together, as n and b at a constant n·b, and all axes if others do."""
    axes = varying_axes(sizes)
    coupled = list[tuple[str, ...]]()
    for axis, other in combinations(axes, 2):
        values, others = sizes.axis(axis), sizes.axis(other)
        if len(set(zip(values, others, strict=True))) == len(set(values)) == len(set(others)):
            coupled.append((axis, other))
    free = len(axes) - len(coupled)
    if free and rank(zip(*map(sizes.axis, axes), strict=True)) < free:
        coupled.append(axes)
    return coupled


def coupling(sizes: Sizes, axis: str) -> str:
    """Why the exponent along an axis cannot be told: others vary only with it. Empty if none does."""
    together = [axes for axes in coupled_axes(sizes) if axis in axes]
    return f"{listed(together[-1])} vary only together: vary one alone" if together else ""


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


# Powers of curves are tried in these steps.
_STEP = 0.01
# The powers of an axis and of its logarithm in each curve.
_POWERS, _LOGS = np.array([(power, log) for log in (0, 1) for power in np.arange(_STEP, 4, _STEP)]).T
# At least this many points more than parameters show how well a curve fits.
_FEWEST_FREE = 2
# A curve of which a smaller share is left beside the other terms is not told apart from them (sums of squares).
_LEAST_TOLD = 1e-13


class Curves(NamedTuple):
    """Curves near a law: their sums of squared residuals and exponents at the largest size, each of shape (curves,).

    Each curve has the same number of `parameters`.
    """

    rss: Floats
    exponents: Floats
    parameters: int

    def plausible(self, points: int, rss: float) -> Floats:
        """Return the exponents of the curves that follow the points as well as the law, half a step less and more.

        The law's sum of squared residuals is `rss`. A curve counts if its own sum is within the 95 % profile interval
        of the smallest of all. The result is empty if none does, or if too few points show how well a curve fits.
        """
        freedom = points - self.parameters
        if freedom < _FEWEST_FREE:
            return np.zeros(0)
        least = max(self.rss.min(initial=rss), points * ROUNDING**2)
        is_plausible = self.rss <= least * (1 + fdtri(1, freedom, CONFIDENCE) / freedom)
        return np.add.outer((-_STEP / 2, _STEP / 2), self.exponents[is_plausible])


def curves_near(terms: Iterable[Term], axis: str, sizes: Sizes, target: Floats, weights: Floats) -> Iterator[Curves]:
    """Fit curves with a free power of the axis in place of the terms with the same factor beside the axis.

    Near n²·d + n·d + 1 these are a + b·d·nᵖ and a + b·d·nᵖ·log n, fitted to the points of every d: more widths are no
    evidence for a power of n. A cost such as n^1.5 misses every sum of terms systematically, however many points there
    are, and the fitted sum has a narrow interval at a wrong exponent. The costs times their `weights` are `target`.
    """
    at, lengths = sizes[largest(sizes)], sizes.axis(axis)
    if lengths.max() == 1:  # decoding of a first token
        return
    rises = (lengths / lengths.max()) ** _POWERS[:, None]
    rises *= (np.log(lengths) / np.log(lengths.max())) ** _LOGS[:, None]
    slopes = _POWERS + _LOGS / np.log(lengths.max())
    for factor in dict.fromkeys(term.without(axis) for term in terms if term.growth(axis) > (0, 0)):
        others = dict.fromkeys((Term(), *(term for term in terms if term.without(axis) != factor)))
        columns = design(others, sizes) * weights[:, None]
        inverse, curves = np.linalg.pinv(columns), rises * factor(sizes) * weights
        free = curves - curves @ inverse.T @ columns.T
        scale, least = (free**2).sum(axis=1), _LEAST_TOLD * (curves**2).sum(axis=1)
        heights = free @ target / np.maximum(scale, least)
        left = target - heights[:, None] * curves
        coefficients = left @ inverse.T
        parts = coefficients * design(others, at)
        powers = [term.exponent(axis, at.n[0]) for term in others]
        risen = heights * factor(at)
        exponents = (parts @ powers + risen * slopes) / (parts.sum(axis=1) + risen)
        rss = ((left - coefficients @ columns.T) ** 2).sum(axis=1)
        is_told = (heights > 0) & (scale > least)
        yield Curves(rss[is_told], exponents[is_told], len(others) + 2)
