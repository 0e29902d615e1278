"""Which laws explain the points as well as the best one does, and what they agree on.

A law is plausible where its residuals are no larger than chance makes them beside the best one's (an F test). Of the
plausible laws those count that have no term to spare: laws of which no smaller one is plausible. Only what all of
those agree on is known.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import fdtri, stdtrit

from harness.scaling.subsets import ROUNDING, Fits
from harness.scaling.terms import Floats, Term

# Low, since a law is named once of many rivals: with it no law was named wrongly in the draws of
# tests/bench/bench_laws.py, and with ten times as much one in four thousand was.
REJECTED_BELOW = 1e-4
# A term that may be this large a part of the cost somewhere, for all that the points say, may not be ruled out.
HIDDEN_PART = 0.10
CONFIDENCE = 0.95


def minimal_plausible(fits: Fits) -> list[int]:
    """The fits that no smaller plausible one is part of, the best first."""
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
    """The largest coefficient that each candidate may have for all that the points say, (candidates,).

    The upper end of its interval, were it added to the chosen ones; 0 for these themselves.
    """
    most = np.zeros(design.shape[1])
    for candidate in set(range(design.shape[1])) - set(chosen):
        columns = design[:, [*chosen, candidate]]
        value, error = last_coefficient(columns, target)
        freedom = max(len(target) - columns.shape[1], 1)
        most[candidate] = max(0.0, value + float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error)
    return most


def last_coefficient(columns: Floats, target: Floats) -> tuple[float, float]:
    """The last column's coefficient and its standard error; infinite where the others say the same as it."""
    basis, triangle = np.linalg.qr(columns)
    if abs(triangle[-1, -1]) < 1e-9 * np.linalg.norm(columns[:, -1]):
        return 0.0, np.inf
    projected = basis.T @ target
    residuals = target - basis @ projected
    freedom = max(len(target) - columns.shape[1], 1)
    noise = max(float(np.sqrt(residuals @ residuals / freedom)), ROUNDING)
    return float(projected[-1] / triangle[-1, -1]), noise / abs(float(triangle[-1, -1]))


def leading(terms: Sequence[Term], axis: str) -> tuple[int, int]:
    """How fast the fastest of the terms grows along an axis: the power, and of n then that of its logarithm."""
    return max(growth(term, axis) for term in terms)


def growth(term: Term, axis: str) -> tuple[int, int]:
    """How fast a term grows along an axis."""
    return term.growth if axis == "n" else (getattr(term, axis), 0)
