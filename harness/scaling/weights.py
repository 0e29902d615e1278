"""The weight of each point in a fit: equal relative to cost, but smaller for imprecise points."""

import numpy as np

from harness.scaling.terms import Floats

# Points with smaller relative errors than this weigh the same, because no law is more accurate than this.
LAW_ERROR = 0.02
# No relative error is taken to be smaller than this.
_LEAST = 1e-3
# The width of a 95 % interval in standard errors.
_WIDTH = 2 * 1.96


def weights_of(costs: Floats, spreads: Floats | None) -> Floats:
    """Return the factors by which to multiply costs: their reciprocals, reduced for imprecise points.

    `spreads` holds the relative standard error of each cost, or is None if unknown.
    """
    if spreads is None:
        return 1 / costs
    return LAW_ERROR / (costs * np.sqrt(np.minimum(spreads, 1.0) ** 2 + LAW_ERROR**2))


def spreads_of(lo: Floats, hi: Floats) -> Floats:
    """Return the relative standard errors of 95 % intervals: at most 1, and 1 for an unbounded interval."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.log(np.asarray(hi, dtype=float) / np.asarray(lo, dtype=float)) / _WIDTH
    return np.where(np.isfinite(error), np.minimum(error, 1.0), 1.0)


def steadied(spreads: Floats) -> Floats:
    """Move each spread halfway to the median of all, on a log scale.

    A spread estimated from a few trials is itself imprecise. Unsteadied, a point whose four trials happen to agree
    would outweigh all others.
    """
    floored = np.maximum(spreads, _LEAST)
    return np.sqrt(floored * np.median(floored))
