"""Fit a cost model: its terms are chosen by cross-validation, and it is undetermined if the points cannot tell.

1. Every law of up to four terms is fitted (`subsets`). Errors are relative: 1 % weighs the same at every size.
2. The laws that explain the points as well as the best one are the rivals (`rivals`).
3. Each rival predicts sizes left out of its fit, a whole n at a time. Of the rivals within one standard error of the
   best prediction, the one with the fewest terms is the law (Breiman et al. 1984, section 3.4.3).
4. The law is determined if all rivals have the same leading term along n, and no faster term can hide in the points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.scaling.law import Coefficient, Hidden, Law
from harness.scaling.rivals import (
    CONFIDENCE,
    HIDDEN_PART,
    growth,
    last_coefficient,
    leading,
    minimal_plausible,
    most_hidden,
)
from harness.scaling.subsets import Fits, all_subsets, left_out
from harness.scaling.terms import Floats, Sizes, Term, candidates, design, varied
from harness.scaling.weights import LAW_ERROR, weights_of

FEWEST_SIZES = 3
# Points do not follow a law if they lie more than this many times their error from it. That error is the points'
# standard error and `LAW_ERROR`, added as squares.
FAR_OFF = 3.0
# A hidden term that is at most this share of the cost at every point changes no result.
_NOWHERE = 0.02
# The best rivals are kept with a law, up to this number. They widen the intervals of exponents and predictions.
MOST_RIVALS = 12


def fit(sizes: Sizes, costs: Floats, spreads: Floats | None = None, expected: Sequence[Term] = ()) -> Law:
    """Fit the law of `costs`, each above 0, at `sizes`.

    The relative standard errors of the costs are `spreads`, if known. The terms that a cost of this kind should
    consist of are `expected`: those of a layer's exact FLOPs, operations and bytes, for example. A law of these terms
    alone is used if it fits the points to within their errors and 2 %, or plausibly as well as any law. No other term
    is then considered. This is what distinguishes n² from n log n with few points.

    Raises ValueError without points, or for a cost that is not positive.
    """
    costs = np.asarray(costs, dtype=float)
    if not len(costs) or not (costs > 0).all():
        raise ValueError("a law needs points, and every cost above zero")
    axes = varied(sizes)
    if expected:
        law = _fit(sizes, costs, spreads, tuple(dict.fromkeys(expected)), axes, presumed=True)
        if law.noise <= LAW_ERROR or _as_good_as_any(law, sizes, costs, spreads, axes):
            return law
    return _fit(sizes, costs, spreads, candidates(axes), axes, presumed=False)


def _as_good_as_any(law: Law, sizes: Sizes, costs: Floats, spreads: Floats | None, axes: tuple[str, ...]) -> bool:
    """Whether the law remains plausible when compared with laws of all candidate terms."""
    problem = _Problem(sizes, costs, spreads, tuple(dict.fromkeys((*candidates(axes), *law.terms))))
    own = [problem.terms.index(term) for term in law.terms]
    wanted = set(own)
    return any(wanted >= set(problem.fits.terms_of(which)) for which in problem.rivals)


class _Problem:
    """Weighted least squares of the points over all subsets of the terms."""

    def __init__(self, sizes: Sizes, costs: Floats, spreads: Floats | None, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        raw = design(terms, sizes)
        weights = weights_of(costs, spreads)
        # Errors are relative first to the measured costs, then to the law. Relative to the measured costs alone,
        # costs that are low by chance would weigh more.
        for _ in range(2):
            fits = all_subsets(raw * weights[:, None], costs * weights)
            best = int(np.argmin(fits.variance))
            weights = weights_of(raw[:, fits.terms_of(best)] @ fits.coefficients[best, : fits.size[best]], spreads)
        self.columns, self.target = raw * weights[:, None], costs * weights
        self.fits: Fits = all_subsets(self.columns, self.target)
        self.rivals = minimal_plausible(self.fits)

    def columns_of(self, which: int) -> Floats:
        return self.columns[:, self.fits.terms_of(which)]


def _fit(
    sizes: Sizes,
    costs: Floats,
    spreads: Floats | None,
    terms: tuple[Term, ...],
    axes: tuple[str, ...],
    presumed: bool,
) -> Law:
    problem = _Problem(sizes, costs, spreads, terms)
    axis = axes[0] if axes else "n"
    fastest = {each: leading(terms, each) for each in axes} if presumed else {}
    chosen, cv_error = _choose(problem, np.unique(sizes.axis(axis), return_inverse=True)[1], fastest)
    hidden = _hidden(problem, chosen)
    law = _law(problem, chosen, axes)
    if spreads is not None and law.noise > FAR_OFF * LAW_ERROR:
        reason = f"the points lie {law.noise / LAW_ERROR:.0f} times as far from any such law as they are known"
    else:
        reason = _undetermined(problem, axis, len(np.unique(sizes.axis(axis))), hidden)
    others = [which for which in problem.rivals if which != chosen][:MOST_RIVALS]
    return replace(
        law,
        determined=not reason,
        reason=reason,
        cv_error=cv_error,
        hidden=hidden,
        trends={axis: _trend(problem, chosen, sizes.axis(axis)) for axis in axes},
        rivals=tuple(_law(problem, which, axes) for which in others),
    )


def _choose(
    problem: _Problem, groups: NDArray[np.intp], fastest: Mapping[str, tuple[int, int]]
) -> tuple[int, float | None]:
    """Choose the law among the rivals; return it and its cross-validation error.

    The error is None if no group of points can be left out. Candidates are the rivals within one standard error of
    the best prediction of the points left out. Those that grow along every axis as fast as `fastest` demands come
    first, then the shortest. An operation done n² times costs time, even if little at the measured sizes.
    """
    errors = {which: left_out(problem.columns_of(which), problem.target, groups) for which in problem.rivals}
    squares = {which: error**2 for which, error in errors.items()}
    means = {which: float(square.mean()) for which, square in squares.items()}
    best = min(means, key=means.__getitem__)
    if not np.isfinite(means[best]):
        return problem.rivals[0], None
    allowed = means[best] + float(squares[best].std()) / np.sqrt(len(problem.target))
    within = [which for which in problem.rivals if means[which] <= allowed]
    lacking = {
        which: sum(
            leading([problem.terms[i] for i in problem.fits.terms_of(which)], axis) != power
            for axis, power in fastest.items()
        )
        for which in within
    }
    chosen = min(within, key=lambda which: (lacking[which], problem.fits.size[which], means[which]))
    return chosen, float(np.sqrt(np.mean((errors[chosen] / problem.target) ** 2)))


def _law(problem: _Problem, which: int, axes: tuple[str, ...]) -> Law:
    terms = [problem.terms[i] for i in problem.fits.terms_of(which)]
    values = problem.fits.coefficients[which, : len(terms)]
    columns = problem.columns_of(which)
    freedom = len(problem.target) - len(terms)
    noise = float(np.sqrt(problem.fits.variance[which]))
    # Columns are scaled to length one. Unscaled, a column of n² would swamp that of a constant.
    scale = np.linalg.norm(columns, axis=0)
    unit = columns / scale
    inverse = np.linalg.pinv(unit.T @ unit) / np.outer(scale, scale)
    covariance = np.asarray(noise**2 * inverse if freedom > 0 else np.full_like(inverse, np.inf), dtype=float)
    quantile = float(stdtrit(max(freedom, 1), (1 + CONFIDENCE) / 2))
    reach = quantile * np.sqrt(np.diag(covariance))
    order = sorted(range(len(terms)), key=lambda i: (terms[i].growth, terms[i]))
    coefficients = tuple(
        Coefficient(terms[i], float(values[i]), max(0.0, float(values[i] - reach[i])), float(values[i] + reach[i]))
        for i in order
    )
    return Law(
        coefficients,
        axes,
        True,
        "",
        covariance=covariance[np.ix_(order, order)],
        quantile=quantile,
        noise=noise,
    )


def _trend(problem: _Problem, which: int, values: Floats) -> tuple[float, float]:
    """The lowest and highest slope that log(cost / law) may still have along an axis. The range contains 0."""
    members = problem.fits.terms_of(which)
    off = 1 - problem.columns_of(which) @ problem.fits.coefficients[which, : len(members)] / problem.target
    off = off * problem.target  # imprecise points count less
    slope, error = last_coefficient(np.stack([problem.target, np.log(values) * problem.target], axis=1), off)
    reach = float(stdtrit(max(len(off) - len(members) - 1, 1), (1 + CONFIDENCE) / 2)) * error
    return (min(0.0, slope - reach), max(0.0, slope + reach)) if np.isfinite(reach) else (-np.inf, np.inf)


def _hidden(problem: _Problem, chosen: int) -> tuple[Hidden, ...]:
    """The terms that are not in the law and not ruled out, except those that are negligible at every point."""
    most = most_hidden(problem.columns, problem.target, problem.fits.terms_of(chosen))
    parts = most * (problem.columns / problem.target[:, None]).max(axis=0)
    return tuple(
        Hidden(term, float(coefficient), float(part))
        for term, coefficient, part in zip(problem.terms, most, parts, strict=True)
        if part > _NOWHERE
    )


def _undetermined(problem: _Problem, axis: str, distinct: int, hidden: Sequence[Hidden]) -> str:
    """Why the leading term along the axis is undetermined; empty if it is determined."""
    if distinct < FEWEST_SIZES:
        return f"{axis} takes {distinct} value{'s' if distinct > 1 else ''}: a law needs {FEWEST_SIZES} at least"
    ways = {leading([problem.terms[i] for i in problem.fits.terms_of(which)], axis) for which in problem.rivals}
    if len(ways) > 1:
        return f"the points do not tell laws led by {_alternatives(ways, axis)} apart"
    top = ways.pop()
    faster = [one for one in hidden if growth(one.term, axis) > top and one.part > HIDDEN_PART]
    if faster:
        worst = max(faster, key=lambda one: one.part)
        return f"a term in {worst.term} may be {min(worst.part, 1):.0%} of the cost at the largest sizes"
    return ""


def _alternatives(ways: set[tuple[int, int]], axis: str) -> str:
    named = [str(Term(n=power, log=log)) if axis == "n" else str(Term(**{axis: power})) for power, log in sorted(ways)]
    return f"{', '.join(named[:-1])} and {named[-1]}"
