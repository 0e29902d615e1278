"""Which laws explain the points as well as the best one, and on what they agree.

A law is plausible if an F test finds its residuals no larger than those of the best law. Only minimal plausible laws
count: those that contain no smaller plausible law. A conclusion is determined only if all of them agree on it.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import fdtri, stdtrit

from harness.scaling.subsets import ROUNDING, Fits
from harness.scaling.terms import Floats, Term

# Low, because a law competes with many rivals. At this level no law was named wrongly in the draws of
# tests/bench/bench_laws.py. At ten times this level, one in four thousand was.
REJECTED_BELOW = 1e-4
# A hidden term is not ruled out if the points allow it to be more than this share of the cost at some size.
HIDDEN_PART = 0.10
CONFIDENCE = 0.95


def minimal_plausible(fits: Fits) -> list[int]:
    """Return the plausible fits that contain no smaller plausible one, the best first."""
    best = int(np.argmin(fits.variance))
    floor = fits.points * ROUNDING**2
    rss = np.maximum(fits.rss, floor)
    freedom = max(fits.points - int(fits.size[best]), 1)
    spared = np.maximum(fits.size[best] - fits.size, 1)
    excess = (rss - rss[best]) / spared / (rss[best] / freedom)
    plausible = np.nonzero(excess <= fdtri(spared, freedom, 1 - REJECTED_BELOW))[0]
    plausible = plausible[np.argsort(fits.size[plausible], kind="stable")]
    kept: list[tuple[int, frozenset[int]]] = []
    for which in plausible:
        terms = frozenset(fits.terms_of(int(which)))
        if not any(smaller < terms for _, smaller in kept):
            kept.append((int(which), terms))
    return sorted((which for which, _ in kept), key=lambda which: float(fits.rss[which]))


def most_hidden(design: Floats, target: Floats, chosen: Sequence[int]) -> Floats:
    """The largest coefficient of each candidate term that the points allow, shape (candidates,).

    This is the upper end of the coefficient's interval if the term is added to the chosen ones. It is 0 for the chosen
    terms themselves.
    """
    most = np.zeros(design.shape[1])
    for candidate in set(range(design.shape[1])) - set(chosen):
        columns = design[:, [*chosen, candidate]]
        value, error = last_coefficient(columns, target)
        freedom = max(len(target) - columns.shape[1], 1)
        most[candidate] = max(0.0, value + float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error)
    return most


def last_coefficient(columns: Floats, target: Floats) -> tuple[float, float]:
    """Return the last column's coefficient and its standard error.

    The error is infinite if the last column depends linearly on the others.
    """
    basis, triangle = np.linalg.qr(columns)
    if abs(triangle[-1, -1]) < 1e-9 * np.linalg.norm(columns[:, -1]):
        return 0.0, np.inf
    projected = basis.T @ target
    residuals = target - basis @ projected
    freedom = max(len(target) - columns.shape[1], 1)
    noise = max(float(np.sqrt(residuals @ residuals / freedom)), ROUNDING)
    return float(projected[-1] / triangle[-1, -1]), noise / abs(float(triangle[-1, -1]))


def leading(terms: Sequence[Term], axis: str) -> tuple[int, int]:
    """The growth of the fastest-growing term along an axis: its power and, for n, the power of log n."""
    return max(growth(term, axis) for term in terms)


def growth(term: Term, axis: str) -> tuple[int, int]:
    """The growth of a term along an axis: its power and, for n, the power of log n."""
    return term.growth if axis == "n" else (getattr(term, axis), 0)
