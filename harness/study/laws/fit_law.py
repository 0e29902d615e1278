"""Fit a cost model: its terms are chosen by cross-validation, and it is undetermined if the points cannot tell.

1. Every law of up to four terms is fitted. Errors are relative: 1 % weighs the same at every size.
2. The laws that explain the points as well as the best one are the rivals.
3. Each rival predicts sizes left out of its fit, a whole n at a time. Of the rivals within one standard error of the
   best prediction, those with the fastest-growing expected terms come first, then the one with the fewest terms
   (Breiman et al. 1984, section 3.4.3).
4. The law is determined if all rivals have the same leading term along n, no faster term can hide in the points, the
   law does not miss them, and its exponent is known to a width of 0.5.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtri

from harness.core.model.formatting import listed
from harness.core.model.polynomial import Term, leading
from harness.core.stats.interval import NORMAL

from . import laws
from .enough_sizes import coupling, curves_near, too_few_sizes, too_many_powers
from .laws import LAW_ERROR, REJECTED_BELOW, ROUNDING, Costs, Floats, Law, Sizes

MOST_TERMS = 4
# A term below this share of the cost at every point is dropped.
_LEAST_PART = 1e-6
# An eigenvalue of I − H below this is 0 but for rounding.
_LEAST_GAP = 1e-10

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Fits:
    """Fits of the same points, with the terms, coefficients and residuals of each.

    `members`: indices into the candidates, shape (fits, k), padded with −1. `coefficients`: of the same shape, padded
    with 0. `rss`: sums of squared relative residuals. `size`: numbers of terms. Both have shape (fits,).
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

    @cached_property
    def best(self) -> int:
        """The fit with the smallest variance of the residuals."""
        return int(np.argmin(self.variance))

    def terms_of(self, which: int) -> tuple[int, ...]:
        """Return the indices of the candidates in one fit."""
        return tuple(int(i) for i in self.members[which, : self.size[which]])

    def predicted(self, which: int, design: Floats) -> Floats:
        """Return the values of one fit, shape (points,)."""
        return design[:, self.terms_of(which)] @ self.coefficients[which, : self.size[which]]


@cache
def subsets(candidates: int, size: int) -> Indices:
    """Return every subset of `size` candidates, shape (subsets, size)."""
    return np.array(list(itertools.combinations(range(candidates), size)), dtype=np.intp).reshape(-1, size)


def all_subsets(design: Floats, target: Floats) -> Fits:
    """Fit every subset of up to `MOST_TERMS` columns by least squares; keep those whose coefficients are all positive.

    `design` has shape (points, candidates). Residuals are relative: each row of `design` and `target` is divided by the
    absolute error that equals a relative error of one.

    The best law without negative coefficients is the least-squares law of its nonzero terms, and so among these.
    """
    points, candidates = design.shape
    scale = np.linalg.norm(design, axis=0)
    unit = design / scale
    gram, moment, total = unit.T @ unit, unit.T @ target, float(target @ target)
    largest = np.abs(design).max(axis=0) / scale
    of_sizes = []
    for size in range(1, min(MOST_TERMS, points, candidates) + 1):
        chosen = subsets(candidates, size)
        grams = gram[chosen[:, :, None], chosen[:, None, :]]
        moments = moment[chosen]
        solved = _solve(grams, moments)
        kept = (solved * largest[chosen] > _LEAST_PART).all(axis=1)
        chosen, solved, grams, moments = chosen[kept], solved[kept], grams[kept], moments[kept]
        left = total - 2 * (solved * moments).sum(1) + np.einsum("si,sij,sj->s", solved, grams, solved)
        padding = ((0, 0), (0, MOST_TERMS - size))
        members, coefficients = np.pad(chosen, padding, constant_values=-1), np.pad(solved / scale[chosen], padding)
        of_sizes.append((members, coefficients, np.maximum(left, 0.0), np.full(len(chosen), size)))
    members, coefficients, rss, sizes = map(np.concatenate, zip(*of_sizes, strict=True))
    return Fits(members, coefficients, rss, sizes, points)


def _solve(grams: Floats, moments: Floats) -> Floats:
    """Solve many small systems; NaN where the terms cannot be told apart at these points."""
    # Columns have length one, so the determinant is near 0 exactly when they are nearly dependent.
    solvable = np.linalg.det(grams) > 1e-13
    solved = np.full(moments.shape, np.nan)
    if solvable.any():
        solved[solvable] = np.linalg.solve(grams[solvable], moments[solvable][..., None])[..., 0]
    return solved


def left_out_errors(design: Floats, target: Floats, groups: Indices) -> Floats:
    """Relative error of each point, shape (points,), as predicted from the other groups of points.

    Least squares needs no refitting: the residuals of a group left out are (I − H)⁻¹ e, with its residuals e in the
    full fit and its block H of the hat matrix. Errors are infinite if the other groups do not determine the terms.
    """
    basis, _ = np.linalg.qr(design)
    residuals = target - basis @ (basis.T @ target)
    errors = np.empty_like(target)
    for group in np.unique(groups):
        here = groups == group
        gap = np.eye(int(here.sum())) - basis[here] @ basis[here].T
        # Its eigenvalues lie between 0 and 1. One is 0 exactly if the other groups leave a combination of terms open.
        determined = np.linalg.eigvalsh(gap)[0] > _LEAST_GAP
        errors[here] = np.linalg.solve(gap, residuals[here]) if determined else np.inf
    return errors


# A hidden term is not ruled out if the points allow it to be more than this share of the cost at some size.
HIDDEN_PART = 0.10


def minimal_plausible(fits: Fits, most_off: float | None) -> list[int]:
    """Return the plausible fits that contain no smaller plausible one, the best first.

    A law is plausible if an F test finds its residuals no larger than those of the best law. A conclusion is determined
    only if all minimal plausible laws agree on it. Fits whose residuals are mere rounding are equally good. The order
    of their terms decides among them, so that the result does not depend on how a CPU rounds.

    With `most_off`, a fit of as many terms as points rejects no other. Fits with a larger residual than `most_off` are
    then implausible if the best fit has a smaller one: with few points, an F test rejects nothing.
    """
    variance = fits.variance if most_off is None else np.where(fits.size >= fits.points, np.inf, fits.variance)
    best = int(np.argmin(variance))
    floor = fits.points * ROUNDING**2
    rss = np.maximum(fits.rss, floor)
    freedom = max(fits.points - int(fits.size[best]), 1)
    spared = np.maximum(fits.size[best] - fits.size, 1)
    excess = (rss - rss[best]) / spared / (rss[best] / freedom)
    is_plausible = excess <= fdtri(spared, freedom, 1 - REJECTED_BELOW)
    if most_off is not None:
        is_plausible &= fits.variance <= max(most_off**2, variance[best])
    kept: dict[int, frozenset[int]] = {}
    for which in sorted(np.flatnonzero(is_plausible).tolist(), key=fits.size.__getitem__):
        terms = frozenset(fits.terms_of(which))
        if not any(smaller < terms for smaller in kept.values()):
            kept[which] = terms
    return sorted(kept, key=lambda which: (float(rss[which]), fits.terms_of(which)))


def last_coefficient(
    columns: Floats, target: Floats, freedom: int, least: float = ROUNDING, most: float = np.inf
) -> tuple[float, float]:
    """Return the last column's coefficient and the half-width of its 95 % interval.

    The noise has this `freedom`. Its standard errors in a half-width are at least `least` and at most `most`. The
    half-width is infinite if the last column depends linearly on the others.
    """
    basis, triangle = np.linalg.qr(columns)
    if abs(triangle[-1, -1]) < 1e-9 * np.linalg.norm(columns[:, -1]):
        return 0.0, np.inf
    projected = basis.T @ target
    residuals = target - basis @ projected
    noise = np.sqrt(residuals @ residuals / max(len(target) - columns.shape[1], 1))
    errors = float(np.clip(laws.reach(freedom) * noise, least, most))
    return float(projected[-1] / triangle[-1, -1]), errors / abs(float(triangle[-1, -1]))


# Points do not follow a law if they lie more than this many times their error from it. That error is the points'
# standard error and `LAW_ERROR`, added as squares.
FAR_OFF = 3.0
# The points of one size do not if chance would put them as far from it in less than this share of laws.
_BY_CHANCE = 1e-3
# A law that misses its points by more than the first share, or sizes left out of the fit by more than the second one,
# is undetermined, however uncertain the points are (root mean squares).
MOST_OFF, MOST_OFF_LEFT_OUT = 0.2, 0.3
# log(cost / law) may bend like a polynomial of this degree at most, if its slope at the end is at least this share of
# the half-width of its 95 % interval.
_MOST_BENT, _CLEAR = 3, 0.7
# A law is undetermined if the 95 % interval of its exponent at the largest size is wider than this.
MOST_UNKNOWN_EXPONENT = 0.5
# A hidden term that is at most this share of the cost at every point moves no exponent by more than 0.003.
_EMPTY = 0.001
# The best rivals are kept with a law, up to this number. They widen the intervals of exponents and predictions.
MOST_RIVALS = 12


def fit_law(costs: Costs, expected: Sequence[Term] = ()) -> Law:
    """Fit the law of `costs`, each above 0. The terms are fitted to what the known cost leaves.

    The terms that a cost of this kind should consist of are `expected`: those of a layer's exact FLOPs, operations and
    bytes, for example. A law of these terms alone is used if it fits the points to within their errors and 2 %, or
    plausibly as well as any law. It may lie three times as far off if only a law of as many terms as points is better.
    No other term is then considered. This is what distinguishes n² from n log n with few points. Next come laws of any
    terms that grow with n no faster than the fastest expected one, if one of them is plausible beside any law.

    Raises ValueError without points, or for a cost that is not positive.
    """
    values = costs.values
    if not len(values) or not (values > 0).all():
        raise ValueError("a law needs points, and every cost above zero")
    axes = laws.varying_axes(costs.sizes)
    terms = laws.candidate_terms(axes)
    if expected:
        law = _fit(_Problem(costs, tuple(dict.fromkeys(expected)), presumed=True), axes)
        every = _Problem(costs, tuple(dict.fromkeys((*terms, *law.terms))))
        rivals = [set(every.terms_of(which)) for which in every.rivals]
        most_off = FAR_OFF * LAW_ERROR if every.fits.size[every.fits.best] >= len(values) else LAW_ERROR
        if law.noise <= most_off or any(set(law.terms) >= rival for rival in rivals):
            return law
        slower = tuple(term for term in terms if term.growth() <= leading(expected, "n"))
        if any(rival <= set(slower) for rival in rivals):
            terms = slower
    return _fit(_Problem(costs, terms), axes)


class _Problem:
    """Weighted least squares of the points over all subsets of the terms.

    The weighted costs are `whole`, and what the known cost leaves of them is `target`. The terms are `presumed` if the
    cost should consist of them.
    """

    def __init__(self, costs: Costs, terms: tuple[Term, ...], presumed: bool = False) -> None:
        self.sizes, self.costs, self.terms, self.presumed = costs.sizes, costs, terms, presumed
        added, uncertain = costs.known_part()
        fitted = costs.values - added
        raw = laws.design(terms, costs.sizes)
        weights = laws.weights_of(costs.values, uncertain)
        # Errors are relative first to the measured costs, then to the law. Relative to the measured costs alone,
        # costs that are low by chance would weigh more.
        for _ in range(2):
            fits = all_subsets(raw * weights[:, None], fitted * weights)
            weights = laws.weights_of(fits.predicted(fits.best, raw) + added, uncertain)
        self.weights, self.whole = weights, costs.values * weights
        self.columns, self.target = raw * weights[:, None], fitted * weights
        self.fits = all_subsets(self.columns, self.target)
        most_off = FAR_OFF * LAW_ERROR if costs.errors is not None else np.inf
        self.rivals = minimal_plausible(self.fits, most_off if presumed else None)

    def columns_of(self, which: int) -> Floats:
        return self.columns[:, self.fits.terms_of(which)]

    def terms_of(self, which: int) -> list[Term]:
        return [self.terms[i] for i in self.fits.terms_of(which)]


def _fit(problem: _Problem, axes: tuple[str, ...]) -> Law:
    sizes, errors, known = problem.sizes, problem.costs.errors, problem.costs.known
    axis = axes[0] if axes else "n"
    fastest = {each: leading(problem.terms, each) for each in axes} if problem.presumed else {}
    groups = np.unique(sizes.axis(axis), return_inverse=True)[1]
    chosen, cv_error = _choose(problem, groups, fastest)
    others = [which for which in problem.rivals if which != chosen][:MOST_RIVALS]
    law = replace(
        _law(problem, chosen, axes),
        cv_error=cv_error,
        trends={each: _trend(problem, chosen, sizes.axis(each)) for each in axes},
        rivals=tuple(_law(problem, which, axes) for which in others),
    )
    for each in axes:
        law = _covering_powers(problem, chosen, law, each)
    # The law is determined along the first axis. Along the others, too few values leave the exponent open.
    untold = {}
    for each in axes[1:]:
        few = coupling(sizes, each) if problem.presumed else too_few_sizes(sizes, each, False)
        untold[each] = few or too_many_powers(law.terms, each, sizes)
    rivals = tuple(replace(rival, known=known) for rival in law.rivals)
    law = replace(law, hidden=_hidden(problem, law), rivals=rivals, known=known)
    off = float(np.sqrt(np.mean((law(sizes) / problem.costs.values - 1) ** 2)))
    reason = _undetermined(problem, axis, law.hidden) or _missed(off, cv_error, errors)
    reason = reason or _unknown_exponent(law, axis, sizes)
    # The points of one size may lie far off without much effect on all. At the smallest, a floor may be left out.
    squares = (problem.target - problem.fits.predicted(chosen, problem.columns)) ** 2
    of_sizes = np.bincount(groups, squares) / chdtri(np.bincount(groups), _BY_CHANCE)
    off_by = max([law.noise / FAR_OFF, *np.sqrt(of_sizes[1:])])
    if errors is not None and off_by > LAW_ERROR:
        reason = "points lie further from this law than their accuracy allows"
    reason = too_few_sizes(sizes, axis, problem.presumed) or reason
    return replace(law, determined=not reason, reason=reason).open_along(untold)


def _covering_powers(problem: _Problem, chosen: int, law: Law, axis: str) -> Law:
    """Widen the exponent along an axis to those of curves that are no sum of terms."""
    rss, at = problem.fits.rss[chosen], problem.sizes[laws.largest(problem.sizes)]
    for curves in curves_near(law.terms, axis, problem.sizes, problem.target, problem.weights):
        exponents = curves.plausible(len(problem.target), rss)
        exponent = laws.exponent_at(law, axis, at)
        if exponent is not None and exponents.size:
            down, up = law.trends[axis]
            down += min(exponents.min() - exponent.lo, 0)
            up += max(exponents.max() - exponent.hi, 0)
            law = replace(law, trends={**law.trends, axis: (down, up)})
    return law


def _unknown_exponent(law: Law, axis: str, sizes: Sizes) -> str:
    """Why the exponent at the largest size is not known well enough for a determined law; empty if it is."""
    if many := too_many_powers(law.terms, axis, sizes):
        return many
    exponent = laws.exponent_at(law, axis, sizes[laws.largest(sizes)])
    if exponent is not None and exponent.hi - exponent.lo > MOST_UNKNOWN_EXPONENT:
        return f"its exponent along {axis} may be {exponent.lo:.1f} to {exponent.hi:.1f}"
    return ""


def _missed(off: float, cv_error: float | None, errors: Floats | None) -> str:
    """Why a law that misses its points, or sizes left out of the fit, is not determined; empty if it misses neither."""
    noisy = ": the times are too uncertain to tell" if errors is not None and np.median(errors) > MOST_OFF / 2 else ""
    if off > MOST_OFF:
        return f"it misses the points by {100 * off:.0f} %{noisy}"
    if cv_error is not None and cv_error > MOST_OFF_LEFT_OUT:
        return f"it misses sizes left out of the fit by {100 * cv_error:.0f} %{noisy}"
    return ""


def _choose(problem: _Problem, groups: Indices, fastest: Mapping[str, tuple[int, int]]) -> tuple[int, float | None]:
    """Choose the law among the rivals; return it and its cross-validation error.

    The error is None if no group of points can be left out. Candidates are the rivals within one standard error of
    the best prediction of the points left out. Those that grow along every axis as fast as `fastest` demands come
    first, then the shortest. An operation done n² times costs time, even if little at the measured sizes.
    """
    errors = {which: left_out_errors(problem.columns_of(which), problem.target, groups) for which in problem.rivals}
    means = {which: float((error**2).mean()) for which, error in errors.items()}
    best = min(means, key=means.__getitem__)
    if not np.isfinite(means[best]):
        return problem.rivals[0], None
    allowed = means[best] + float((errors[best] ** 2).std()) / np.sqrt(len(problem.target))
    within = [which for which in problem.rivals if means[which] <= allowed]
    lacking = {
        which: sum(leading(problem.terms_of(which), axis) != power for axis, power in fastest.items())
        for which in within
    }
    chosen = min(within, key=lambda which: (lacking[which], problem.fits.size[which], means[which]))
    return chosen, float(np.sqrt(np.mean((errors[chosen] / problem.whole) ** 2)))


def _law(problem: _Problem, which: int, axes: tuple[str, ...]) -> Law:
    terms, columns = problem.terms_of(which), problem.columns_of(which)
    values = problem.fits.coefficients[which, : len(terms)]
    freedom = len(problem.target) - len(terms)
    noise = float(np.sqrt(problem.fits.variance[which]))
    # Columns are scaled to length one. Unscaled, a column of n² would swamp that of a constant.
    scale = np.linalg.norm(columns, axis=0)
    unit = columns / scale
    inverse = np.linalg.pinv(unit.T @ unit) / np.outer(scale, scale)
    covariance = noise**2 * inverse if freedom > 0 else np.full_like(inverse, np.inf)
    quantile = laws.reach(freedom)
    half_width = quantile * np.sqrt(np.diag(covariance))
    order = sorted(range(len(terms)), key=terms.__getitem__)
    lo, hi = np.maximum(values - half_width, 0.0), values + half_width
    coefficients = tuple(laws.Coefficient(terms[i], float(values[i]), float(lo[i]), float(hi[i])) for i in order)
    covariance = covariance[np.ix_(order, order)]
    return Law(coefficients, axes, True, "", covariance=covariance, quantile=quantile, noise=noise)


def _trend(problem: _Problem, which: int, values: Floats) -> tuple[float, float]:
    """The lowest and highest slope that log(cost / law) may still have at the end of an axis. The range contains 0.

    From seven sizes on, the points may bend it: a smooth change of speed makes a sum of powers too steep at its end.
    """
    off = problem.target - problem.fits.predicted(which, problem.columns)  # imprecise points count less
    logs, freedom = np.log(values / values.max()), len(off) - int(problem.fits.size[which])
    lowest, highest, most = 0.0, 0.0, np.clip((len(np.unique(values)) - 3) // 2, 1, _MOST_BENT)
    for degree in range(1, most + 1):
        columns = [problem.whole * logs**power for power in (0, *range(2, degree + 1), 1)]
        slope, half_width = last_coefficient(np.stack(columns, axis=1), off, freedom - degree)
        if degree == 1 or abs(slope) > _CLEAR * half_width:
            lowest, highest = min(lowest, slope - half_width), max(highest, slope + half_width)
    return lowest, highest


def _hidden(problem: _Problem, law: Law) -> tuple[laws.Hidden, ...]:
    """The terms that are not in the law and not ruled out, except those that are negligible at every point.

    No count rules out a power, as time may hold uncounted work. The largest coefficient that the points allow is the
    upper end of its interval in the law with the term. The noise is at least the errors of the points, and at most that
    of the law or `LAW_ERROR`. A single trial has an error of 1, which says nothing.
    """
    freedom, found = len(problem.target) - len(law.terms) - 1, []
    least, most = ROUNDING, np.inf
    errors = problem.costs.errors
    if errors is not None:
        least = NORMAL * np.median(np.where(errors < 1, errors, LAW_ERROR) * problem.whole)
        most = NORMAL * max(LAW_ERROR, law.noise)
    powers = (replace(term, n=power, log=0).along(law.varied) for term in law.terms for power in range(4))
    for term in dict.fromkeys((*problem.terms, *(powers if problem.presumed else ()))):
        if term not in law.terms:
            columns = laws.design((*law.terms, term), problem.sizes) * problem.weights[:, None]
            highest = sum(last_coefficient(columns, problem.target, freedom, least, most))
            column = columns[:, -1]
            part = highest * float((column / problem.whole).max())
            if part > _EMPTY:
                absorbed = np.linalg.pinv(columns[:, :-1]) @ column
                found.append(laws.Hidden(term, highest, part, absorbed))
    return tuple(found)


def _undetermined(problem: _Problem, axis: str, hidden: Sequence[laws.Hidden]) -> str:
    """Why the leading term along the axis is undetermined; empty if it is determined."""
    ways = {leading(problem.terms_of(which), axis) for which in problem.rivals}
    if len(ways) > 1:
        rivals = [str(Term.of({axis: power, "log": log})) for power, log in sorted(ways)]
        return f"the points do not tell laws led by {listed(rivals)} apart"
    faster = [one for one in hidden if one.term in problem.terms and one.term.growth(axis) > min(ways)]
    worst = max(faster, key=lambda one: one.part, default=None)
    if worst is None or worst.part <= HIDDEN_PART:
        return ""
    return f"a term in {worst.term} may be {min(worst.part, 1):.0%} of the cost at the largest sizes"
