"""Costs that follow one law up to some n and another law beyond it.

A break comes from another kernel, say, or from blocks that the C library returns to the system. An average of both
laws would describe neither. Measured sizes are tried as breaks. A size is a break if two laws explain the points far
better than one law, and the cost jumps there instead of bending.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtri

from harness.scaling.fit import fit
from harness.scaling.law import Break, Law
from harness.scaling.subsets import ROUNDING, Fits, all_subsets
from harness.scaling.terms import Floats, Sizes, Term, candidates, design, varied
from harness.scaling.weights import weights_of

# Significance level of a break. It is low and divided by the number of n, because many n are tried.
_REJECTED_BELOW = 1e-4
# The cost must jump by at least this share at a break, up or down, because no law is more accurate than this. It must
# also jump by more than `_SCATTERS` times the scatter of the points.
LEAST_JUMP = 0.03
_SCATTERS = 3.0
# Each piece needs at least this many sizes.
FEWEST_SIZES = 2
# At most this many sizes are tried as the break. If there are more, the tried ones are spread evenly.
_MOST_TRIED = 24


def fit_pieces(sizes: Sizes, costs: Floats, spreads: Floats | None = None, expected: Sequence[Term] = ()) -> Law:
    """Fit the law of the largest sizes: of all points, or of those from the last break on.

    The law's `breaks` lists all breaks. For the arguments see `fit`.
    """
    terms = tuple(dict.fromkeys(expected)) or candidates(varied(sizes))
    breaks = _breaks(sizes, costs, terms, spreads)
    if not breaks:
        return fit(sizes, costs, spreads, expected)
    above = sizes.n >= breaks[-1].n
    law = fit(sizes[above], costs[above], None if spreads is None else spreads[above], expected)
    return replace(law, breaks=breaks)


def _breaks(sizes: Sizes, costs: Floats, terms: Sequence[Term], spreads: Floats | None) -> tuple[Break, ...]:
    """Every break in ascending n, found by splitting the points at the best break and searching both sides."""
    found = find_break(sizes, costs, terms, spreads)
    if found is None:
        return ()
    below, above = (
        _breaks(sizes[side], costs[side], terms, None if spreads is None else spreads[side])
        for side in (sizes.n < found.n, sizes.n >= found.n)
    )
    return (*below, found, *above)


def find_break(sizes: Sizes, costs: Floats, terms: Sequence[Term], spreads: Floats | None = None) -> Break | None:
    """Find the n at which a second law begins; None if there is no break.

    Both laws consist of `terms`. For `spreads` see `fit`.
    """
    weights = weights_of(costs, spreads)
    columns, target = design(terms, sizes) * weights[:, None], costs * weights
    whole = _Piece.best(columns, target)
    found: list[tuple[float, Break]] = []
    distinct = np.unique(sizes.n)
    inner = distinct[FEWEST_SIZES : len(distinct) - FEWEST_SIZES + 1]
    for n in inner[:: -(-len(inner) // _MOST_TRIED) or 1]:
        above = sizes.n >= n
        left, right = (_Piece.best(columns[part], target[part]) for part in (~above, above))
        used = left.size + right.size + 1  # the break itself is one more parameter
        spent, freedom = max(used - whole.size, 1), len(costs) - used
        if freedom < 1:
            continue
        rss = max(left.rss + right.rss, len(costs) * ROUNDING**2)
        excess = (whole.rss - rss) / spent / (rss / freedom)
        here = sizes.n == n
        jump = float(np.exp(np.median(np.log(target[here] / left.predicted(columns[here])))))
        chance = fdtri(spent, freedom, 1 - _REJECTED_BELOW / len(distinct))
        least = max(LEAST_JUMP, _SCATTERS * float(np.sqrt(rss / freedom)))
        if excess > chance and abs(np.log(jump)) >= np.log1p(least):
            found.append((rss, Break(float(n), jump)))
    return min(found, key=lambda pair: pair[0])[1] if found else None


@dataclass(frozen=True)
class _Piece:
    """The law with the smallest residual variance over some of the points."""

    fits: Fits
    which: int

    @classmethod
    def best(cls, columns: Floats, target: Floats) -> "_Piece":
        fits = all_subsets(columns, target)
        return cls(fits, int(np.argmin(fits.variance)))

    @property
    def rss(self) -> float:
        return float(self.fits.rss[self.which])

    @property
    def size(self) -> int:
        return int(self.fits.size[self.which])

    def predicted(self, columns: Floats) -> Floats:
        members = self.fits.terms_of(self.which)
        return columns[:, members] @ self.fits.coefficients[self.which, : self.size]
