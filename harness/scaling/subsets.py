"""Every law of up to four terms at once: least squares over each subset of the candidate terms.

With coefficients that must not be negative, the best law is the ordinary least-squares law of those terms that it
does not set to zero; so looking at all subsets and keeping those whose coefficients are positive finds it, and every
rival beside it. Residuals are relative: each row of `design` and `target` is divided by what a relative error of one
would be.
"""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.scaling.terms import Floats

MOST_TERMS = 4
# Residuals below this share of the cost are rounding, and not told from none.
ROUNDING = 1e-7
# A term whose part is below this share of the cost at every point is no term.
_LEAST_PART = 1e-6

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Fits:
    """Fits of the same points: for each its terms (padded with −1), coefficients (padded with 0), and residuals.

    `members`: (fits, k) indices into the candidates; `coefficients`: (fits, k); `rss`: (fits,) sums of squared
    relative residuals; `size`: (fits,) numbers of terms. `points`: how many there were.
    """

    members: Indices
    coefficients: Floats
    rss: Floats
    size: Indices
    points: int

    @property
    def variance(self) -> Floats:
        """The residuals' variance, (fits,); no less than rounding leaves."""
        return np.maximum(self.rss, self.points * ROUNDING**2) / np.maximum(self.points - self.size, 1)

    def terms_of(self, which: int) -> tuple[int, ...]:
        """The candidates in one fit."""
        return tuple(int(i) for i in self.members[which, : self.size[which]])


@cache
def _subsets(candidates: int, size: int) -> Indices:
    return np.array(list(itertools.combinations(range(candidates), size)), dtype=np.intp).reshape(-1, size)


def all_subsets(design: Floats, target: Floats, most: int = MOST_TERMS) -> Fits:
    """Fits of every subset of up to `most` columns that comes out positive; `design` is (points, candidates)."""
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
    """Solutions of many small systems, NaN where the terms cannot be told apart at these points."""
    # Columns have length one: the determinant is how far they are from lying in each other.
    solvable = np.linalg.det(grams) > 1e-13
    solved = np.full(moments.shape, np.nan)
    if solvable.any():
        solved[solvable] = np.linalg.solve(grams[solvable], moments[solvable][..., None])[..., 0]
    return solved


def left_out(design: Floats, target: Floats, groups: Indices) -> Floats:
    """Relative errors of each point as predicted by the other groups of points, (points,), of one set of terms.

    Of least squares this needs no refitting: the residuals e of a group left out are (I − H)⁻¹ e, with H the group's
    block of the hat matrix. Infinite where the other groups do not determine the terms.
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
    """Columns and coefficients, of either sign, of every subset of `size` that gives the target but for rounding."""
    scale = np.linalg.norm(design, axis=0)
    unit = design / scale
    gram, moment = unit.T @ unit, unit.T @ target
    chosen = _subsets(design.shape[1], size)
    # A trace of a ridge: terms that cannot be told apart here are solved for somehow, and then looked at exactly.
    grams = gram[chosen[:, :, None], chosen[:, None, :]] + 1e-13 * np.eye(size)
    solved = np.linalg.solve(grams, moment[chosen][..., None])[..., 0]
    left = float(target @ target) - (solved * moment[chosen]).sum(1)
    close = np.nonzero(left < 1e-6 * len(target))[0]  # sieved coarsely: the difference of two large numbers
    found = []
    for which in close:
        columns = list(chosen[which])
        exact, *_ = np.linalg.lstsq(unit[:, columns], target, rcond=None)
        if np.abs(unit[:, columns] @ exact - target).max() < tolerance:
            found.append((tuple(int(i) for i in columns), exact / scale[columns]))
    return found
