"""Fit every law of up to four terms: least squares over each subset of the candidate terms.

Coefficients must not be negative. The best such law is the ordinary least-squares law of its nonzero terms. Fitting
all subsets and keeping those with positive coefficients therefore finds it, and all its rivals too. Residuals are
relative: each row of `design` and `target` is divided by the absolute error that equals a relative error of one.
"""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.scaling.terms import Floats

MOST_TERMS = 4
# Residuals below this share of the cost are rounding and count as none.
ROUNDING = 1e-7
# A term below this share of the cost at every point is dropped.
_LEAST_PART = 1e-6

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Fits:
    """Fits of the same points, with the terms, coefficients and residuals of each.

    `members`: indices into the candidates, shape (fits, k), padded with −1.
    `coefficients`: shape (fits, k), padded with 0.
    `rss`: sums of squared relative residuals, shape (fits,).
    `size`: numbers of terms, shape (fits,).
    `points`: the number of points.
    """

    members: Indices
    coefficients: Floats
    rss: Floats
    size: Indices
    points: int

    @property
    def variance(self) -> Floats:
        """The variance of the residuals, shape (fits,), at least that of rounding."""
        return np.maximum(self.rss, self.points * ROUNDING**2) / np.maximum(self.points - self.size, 1)

    def terms_of(self, which: int) -> tuple[int, ...]:
        """Return the indices of the candidates in one fit."""
        return tuple(int(i) for i in self.members[which, : self.size[which]])


@cache
def _subsets(candidates: int, size: int) -> Indices:
    return np.array(list(itertools.combinations(range(candidates), size)), dtype=np.intp).reshape(-1, size)


def all_subsets(design: Floats, target: Floats, most: int = MOST_TERMS) -> Fits:
    """Fit every subset of up to `most` columns; keep those whose coefficients are all positive.

    `design` has shape (points, candidates).
    """
    points, candidates = design.shape
    scale = np.linalg.norm(design, axis=0)
    unit = design / scale
    gram, moment, total = unit.T @ unit, unit.T @ target, float(target @ target)
    largest = np.abs(design).max(axis=0) / scale
    members, coefficients, rss, sizes = [], [], [], []
    for size in range(1, min(most, points, candidates) + 1):
        chosen = _subsets(candidates, size)
        grams = gram[chosen[:, :, None], chosen[:, None, :]]
        moments = moment[chosen]
        solved = _solve(grams, moments)
        kept = (solved * largest[chosen] > _LEAST_PART).all(axis=1)
        chosen, solved, grams, moments = chosen[kept], solved[kept], grams[kept], moments[kept]
        left = total - 2 * (solved * moments).sum(1) + np.einsum("si,sij,sj->s", solved, grams, solved)
        padding = ((0, 0), (0, most - size))
        members.append(np.pad(chosen, padding, constant_values=-1))
        coefficients.append(np.pad(solved / scale[chosen], padding))
        rss.append(np.maximum(left, 0.0))
        sizes.append(np.full(len(chosen), size))
    return Fits(
        np.concatenate(members), np.concatenate(coefficients), np.concatenate(rss), np.concatenate(sizes), points
    )


def _solve(grams: Floats, moments: Floats) -> Floats:
    """Solve many small systems; NaN where the terms cannot be told apart at these points."""
    # Columns have length one, so the determinant is near 0 exactly when they are nearly dependent.
    solvable = np.linalg.det(grams) > 1e-13
    solved = np.full(moments.shape, np.nan)
    if solvable.any():
        solved[solvable] = np.linalg.solve(grams[solvable], moments[solvable][..., None])[..., 0]
    return solved


def left_out(design: Floats, target: Floats, groups: Indices) -> Floats:
    """Relative error of each point, shape (points,), as predicted from the other groups of points.

    Least squares needs no refitting for this. The residuals of a group left out are (I − H)⁻¹ e. Here e are its
    residuals in the full fit, and H is its block of the hat matrix. Errors are infinite if the other groups do not
    determine the terms.
    """
    basis, _ = np.linalg.qr(design)
    residuals = target - basis @ (basis.T @ target)
    errors = np.empty_like(target)
    for group in np.unique(groups):
        here = groups == group
        gap = np.eye(int(here.sum())) - basis[here] @ basis[here].T
        errors[here] = np.linalg.solve(gap, residuals[here]) if np.linalg.cond(gap) < 1e10 else np.inf
    return errors


def subset_fits(
    design: Floats, target: Floats, size: int, tolerance: float = 1e-8
) -> list[tuple[tuple[int, ...], Floats]]:
    """Return every subset of `size` columns that gives the target up to rounding, with its coefficients.

    Coefficients may have either sign.
    """
    scale = np.linalg.norm(design, axis=0)
    unit = design / scale
    gram, moment = unit.T @ unit, unit.T @ target
    chosen = _subsets(design.shape[1], size)
    # A tiny ridge keeps systems of dependent terms solvable. The solutions are checked exactly below.
    grams = gram[chosen[:, :, None], chosen[:, None, :]] + 1e-13 * np.eye(size)
    solved = np.linalg.solve(grams, moment[chosen][..., None])[..., 0]
    left = float(target @ target) - (solved * moment[chosen]).sum(1)
    close = np.nonzero(left < 1e-6 * len(target))[0]  # coarse, because `left` is the difference of two large numbers
    found = []
    for which in close:
        columns = list(chosen[which])
        exact, *_ = np.linalg.lstsq(unit[:, columns], target, rcond=None)
        if np.abs(unit[:, columns] @ exact - target).max() < tolerance:
            found.append((tuple(int(i) for i in columns), exact / scale[columns]))
    return found
