"""What a point weighs in a fit: all points alike, relative to their cost, but those that are known worse."""

import numpy as np

from harness.scaling.terms import Floats

# Points known better than this weigh alike: no law is truer than that.
LAW_ERROR = 0.02
# Nothing is known better than this.
_LEAST = 1e-3
# An interval of 95 % is so many standard errors wide.
_WIDTH = 2 * 1.96


def weights_of(costs: Floats, spreads: Floats | None) -> Floats:
    """By what to multiply costs: their reciprocal, and less for a point whose `spreads`, relative, is wide."""
    if spreads is None:
        return 1 / costs
    return LAW_ERROR / (costs * np.sqrt(np.minimum(spreads, 1.0) ** 2 + LAW_ERROR**2))


def spreads_of(lo: Floats, hi: Floats) -> Floats:
    """The relative standard errors that belong to intervals of 95 %; one where an interval has no end."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.log(np.asarray(hi, dtype=float) / np.asarray(lo, dtype=float)) / _WIDTH
    return np.where(np.isfinite(error), np.minimum(error, 1.0), 1.0)


def steadied(spreads: Floats) -> Floats:
    """Spreads halfway, as logarithms, to their median: one estimated from a few trials is itself known badly.

    Taken at its word, a point whose four trials happen to agree would outweigh all others.
    """
    floored = np.maximum(spreads, _LEAST)
    return np.sqrt(floored * np.median(floored))
