"""Laws that change at some n, and predictions with intervals at sizes that were not measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtri

from harness.core.model.polynomial import OwnSize, Term, leading
from harness.core.stats.interval import NORMAL

from . import laws
from .enough_sizes import FEWEST_SIZES, curves_near
from .fit_law import all_subsets, fit_law
from .laws import LAW_ERROR, ROUNDING, Break, Costs, Floats, Law, Range, Sizes, design, position_of, reach

# Significance level of a break. It is low and divided by the number of n, because many n are tried.
_REJECTED_BELOW = 1e-4
# The cost must jump by at least this share at a break, up or down, because no law is more accurate than this. It must
# also jump by more than `_SCATTERS` times the scatter of the points.
_LEAST_JUMP = 0.03
_SCATTERS = 3.0
# Each piece needs at least this many sizes.
_FEWEST_OF_PIECE = 2
# At most this many sizes are tried as the break. If there are more, the tried ones are chosen evenly.
_MOST_TRIED = 24


def fit_pieces(costs: Costs, expected: Sequence[Term] = ()) -> Law:
    """Fit the law of the largest sizes: of all points, or of those from the last break on.

    At a break, one law ends and another begins. The cause may be another kernel, or memory that the C library returns
    to the system. An average of both laws would describe neither.

    The law's `breaks` lists all breaks. For the arguments see `fit_law`.
    """
    terms = tuple(dict.fromkeys(expected)) or laws.candidate_terms(laws.varying_axes(costs.sizes))
    breaks = _breaks(costs, terms, along_memory=False)
    if costs.known is not None:
        # Where memory blocks grow with the heads, large ones cause a jump at another n for each number of heads.
        of_memory = _breaks(costs, terms, along_memory=True)
        if not breaks or 0 < len(of_memory) < len(breaks):
            breaks = of_memory
    if not breaks:
        return fit_law(costs, expected)
    position = position_of(costs.sizes, costs.known, breaks[-1].bytes is not None)
    return replace(fit_law(costs[position >= breaks[-1].position], expected), breaks=breaks)


def _breaks(costs: Costs, terms: Sequence[Term], along_memory: bool) -> tuple[Break, ...]:
    """Every break in ascending order, found by splitting the points at the best break and searching both sides."""
    found = find_break(costs, terms, along_memory)
    if found is None:
        return ()
    position = position_of(costs.sizes, costs.known, along_memory)
    sides = (position < found.position, position >= found.position)
    below, above = (_breaks(costs[side], terms, along_memory) for side in sides)
    return (*below, found, *above)


def find_break(costs: Costs, terms: Sequence[Term], along_memory: bool = False) -> Break | None:
    """Find the n, or the size of the largest memory block, at which a second law begins; None if there is no break.

    Measured sizes are tried as breaks. A size is a break if two laws explain the points far better than one law, or one
    curve with a free power, and the cost jumps there instead of bending. Both laws consist of `terms`.
    """
    sizes = costs.sizes
    added, errors = costs.known_part()
    weights = laws.weights_of(costs.values, errors)
    columns, target, added = design(terms, sizes) * weights[:, None], (costs.values - added) * weights, added * weights
    whole = all_subsets(columns, target)
    near = curves_near([terms[i] for i in whole.terms_of(whole.best)], "n", sizes, target, weights)
    smooth = [(curves.rss.min(initial=np.inf), curves.parameters) for curves in near]
    rss_of_one, size_of_one = min([(whole.rss[whole.best], int(whole.size[whole.best])), *smooth])
    whole_cost = target + added
    found: list[tuple[float, Break]] = []
    position = position_of(sizes, costs.known, along_memory)
    distinct = np.unique(position)
    inner = distinct[_FEWEST_OF_PIECE : len(distinct) - _FEWEST_OF_PIECE + 1]
    for start in inner[:: -(-len(inner) // _MOST_TRIED) or 1]:
        sides = (position < start, position >= start)
        if min(len(np.unique(sizes.n[side])) for side in sides) < _FEWEST_OF_PIECE:
            continue
        pieces = [all_subsets(columns[side], target[side]) for side in sides]
        used = sum(int(piece.size[piece.best]) for piece in pieces) + 1  # the break itself is one more parameter
        spent, freedom = max(used - size_of_one, 1), len(target) - used
        if freedom < 1:
            continue
        rss = max(sum(piece.rss[piece.best] for piece in pieces), len(target) * ROUNDING**2)
        excess = (rss_of_one - rss) / spent / (rss / freedom)
        chance = fdtri(spent, freedom, 1 - _REJECTED_BELOW / len(distinct))
        below, above = (piece.predicted(piece.best, columns) + added for piece in pieces)
        here = position == start
        jump = float(np.median(np.log(whole_cost[here] / below[here])))
        off = np.log(whole_cost / np.where(sides[0], below, above))
        least = max(_LEAST_JUMP, _SCATTERS * math.sqrt(off @ off / freedom))
        if excess > chance and abs(jump) >= np.log1p(least):
            found.append((rss, Break(float(sizes.n[sides[1]].min()), float(start) if along_memory else None)))
    return min(found, key=lambda pair: pair[0])[1] if found else None


# A doubling beyond the measured sizes adds an error of this share, as far as nothing is known of the series. It counts
# as so many checks. In default sweeps of two noisy cores, laws of n ≤ 512 missed n = 2048 by 3 to 6 % per doubling.
# Where the page faults of larger sizes are not known, the error is larger and less certain.
PRIOR_DRIFT, _PRIOR_WEIGHT = 0.045, 16.0
UNKNOWN_DRIFT, _UNKNOWN_WEIGHT = 0.10, 2.0
# The same for exact laws: beyond the measured sizes, another phase or branch of a layer may take over.
_EXACT_DRIFT = 0.10
# The law's uncertainty widens an interval by this factor at most. Unknown coefficients would make it infinite.
_FARTHEST = 100.0
# At most this many cuts between smaller and larger sizes are tried.
_MOST_CUTS = 8
# A size nearer than this many doublings above a cut shows scatter, and counts as this far.
_CLOSEST = 0.1
# A law fitted below a cut is tested up to this many times the n of the cut.
_TESTED_UP_TO = 4


@dataclass(frozen=True)
class Predictor:
    """A law with the parameters of its prediction interval.

    A prediction is uncertain for five reasons, and the variances of log cost add up. The law and its coefficients are
    uncertain. Points scatter around any law. Page faults are known approximately. Hidden terms and another exponent may
    take over. And a law may not hold beyond the measured sizes, because caches overflow or other kernels take over:
    this is the drift.

    The distance of the points from the law is `scatter`. The error of the law per doubling outside the `measured` sizes
    is `drift`, estimated from `checks` predictions. Both are standard deviations of log cost. Along each axis, the cost
    is known to grow at least with the power in `least`, even if a larger cost still hides this.
    """

    law: Law
    scatter: float
    drift: float
    checks: float
    measured: Sizes
    least: Mapping[str, int]

    def __call__(self, n: float, d: float, h: float = 1, b: float = 1, own: OwnSize = ()) -> Range:
        """Return the cost at a size with its 95 % prediction interval."""
        size = Sizes.of([(n, d, h, b, own)])
        fitted, of_law = self._averaged(size)
        expected = most = of_known = 0.0
        if self.law.known is not None:
            expected, most = (float(part[0]) for part in self.law.known.unmeasured(size))
            of_known = self.law.known.error * float(self.law.known(size)[0])
        value = fitted + expected
        if value == 0:
            return Range(0.0, 0.0, 0.0)
        deviation = math.hypot(of_law, self.scatter, self.drift * self.outside(size), of_known / value)
        half_width = min(reach(self.checks) * deviation, math.log(_FARTHEST))
        hidden_down, hidden_up = self._hidden(size)
        down = math.hypot(half_width, math.log(value / fitted), hidden_down)
        up = math.hypot(half_width, math.log((fitted + most) / value), hidden_up)
        return Range(value, value * math.exp(-down), value * math.exp(up))

    def _hidden(self, size: Sizes) -> tuple[float, float]:
        """How far the log cost may lie below and above that of the law, for all that the points tell of its growth.

        One hidden term at a time takes its most, and the law's coefficients make room for it. Such a term grows at most
        one power of n faster than the law. Outside the measured sizes, the exponent may be that of either end of
        its interval. A cost that the law does not show may hide behind another, as work behind a launch: it is at most
        the whole cost at the largest size.
        """
        cost = float(self.law(size)[0])
        if self.law.exact or cost <= 0:
            return 0.0, 0.0
        fastest, values, ratios = leading(self.law.terms, "n")[0] + 1, design(self.law.terms, size)[0], [1.0]
        for hidden in self.law.hidden:
            if hidden.term.n <= fastest:
                with np.errstate(invalid="ignore"):  # an unbounded term whose whole cost the law takes
                    ratios.append(1 + hidden.most * (hidden.term(size)[0] - values @ hidden.absorbed) / cost)
        logs = np.log(np.clip(np.nan_to_num(ratios, nan=1.0), 1 / _FARTHEST, _FARTHEST))
        down, up = float(logs.min()), float(logs.max())
        inside = self._inside(size)
        for axis in self.law.varied:
            exponent = laws.exponent_at(self.law, axis, inside)
            beyond = math.log(size.axis(axis)[0] / inside.axis(axis)[0])
            if exponent and math.isfinite(exponent.hi - exponent.lo):
                is_hiding = beyond > 0 and leading(self.law.terms, axis)[0] < self.least[axis]
                highest = max(exponent.hi, self.least[axis] * is_hiding)
                ends = beyond * (exponent.lo - exponent.value), beyond * (highest - exponent.value)
                down, up = math.hypot(down, min(ends)), math.hypot(up, max(ends))
        return down, up

    def _inside(self, size: Sizes) -> Sizes:
        """The nearest size within the measured range of each axis."""

        def nearest(axis: str) -> Floats:
            measured = self.measured.axis(axis)
            return np.clip(size.axis(axis), measured.min(), measured.max())

        n, d, h, b = map(nearest, "ndhb")
        return Sizes(n, d, h, b, {letter: nearest(letter) for letter in size.own})

    def _averaged(self, size: Sizes) -> tuple[float, float]:
        """Return the geometric mean of the law and its rivals, and the standard error of its log.

        They are weighted by how closely each follows the points. The choice among them is partly chance. Their mean
        errs less beyond the points (Hoeting et al. 1999, "Bayesian model averaging"). The weights are the square roots
        of theirs, because points err together. The error is the root of the variance within the laws, from the
        coefficients, and between them (equation 6).
        """
        cost = float(self.law(size)[0])
        if self.law.exact or cost <= 0:
            return max(cost, 0.0), 0.0
        averaged = [law for law in (self.law, *self.law.rivals) if float(law(size)[0]) > 0]
        least = max(min(law.noise for law in averaged), ROUNDING)
        weights = np.array([(least / max(law.noise, least)) ** (len(self.measured) / 2) for law in averaged])
        weights, logs = weights / weights.sum(), np.log([float(law(size)[0]) for law in averaged])
        mean = float(weights @ logs)
        within = self.law.error(design(self.law.terms, size)[0]) / NORMAL / cost
        return math.exp(mean), math.hypot(within, math.sqrt(float(weights @ (logs - mean) ** 2)))

    def outside(self, size: Sizes) -> float:
        """The number of doublings, over all axes, by which a size lies outside the measured sizes; 0 inside them."""
        inside = self._inside(size)
        return sum(abs(math.log2(size.axis(axis)[0] / inside.axis(axis)[0])) for axis in self.law.varied)


def predictor(costs: Costs, expected: Sequence[Term] = (), law: Law | None = None) -> Predictor:
    """Return the predictor of a series.

    Pass `law` if it is already fitted. For the other arguments see `fit_law`. The measured range starts at the law's
    last break. The drift is estimated from all sizes.
    """
    law = law or fit_pieces(costs, expected)
    least = law.breaks[-1].position if law.breaks else 0.0
    own = costs[law.position(costs.sizes) >= least]
    fitted = law(own.sizes)
    off = np.log(own.values / np.where(fitted > 0, fitted, own.values))  # a law in n·log n says nothing about n = 1
    # An uncertain point says little about the scatter around the law.
    weights = 1 / (LAW_ERROR**2 + (0.0 if own.errors is None else own.errors**2) + 0 * off)
    # Noise cannot mislead an exact law, so its drift is not estimated: the prior is used as it is.
    drift, checks = (_EXACT_DRIFT, math.inf) if law.exact else _drift(costs, expected)
    return Predictor(
        law,
        scatter=0.0 if law.exact else float(np.sqrt(weights @ off**2 / weights.sum())),
        drift=drift,
        checks=checks,
        measured=own.sizes,
        # A layer reads each of its n·d·b inputs, counted or not.
        least={axis: max(axis in "ndmb", leading(expected, axis)[0]) for axis in law.varied},
    )


def _drift(costs: Costs, expected: Sequence[Term]) -> tuple[float, float]:
    """The error per doubling of laws fitted to smaller n at the next larger n, and the number of these checks.

    This error is taken as the error per doubling of the full law beyond the largest size.
    """
    drift, checks = (PRIOR_DRIFT, _PRIOR_WEIGHT) if costs.known is not None else (UNKNOWN_DRIFT, _UNKNOWN_WEIGHT)
    total = checks * drift**2
    # A law of fewer sizes fails in other ways than the law of all sizes, so its failures say nothing about it.
    lengths = costs.sizes.n
    cuts = np.unique(lengths)[FEWEST_SIZES - 1 : -1]
    for cut in cuts[:: -(-len(cuts) // _MOST_CUTS) or 1]:
        tried = costs[(lengths > cut) & (lengths <= _TESTED_UP_TO * cut)]
        if not len(tried.values):
            continue
        predicted = fit_pieces(costs[lengths <= cut], expected)(tried.sizes)
        if (predicted <= 0).any():  # a law in n·log n says nothing about n = 1
            continue
        off, doublings = np.log(tried.values / predicted), np.log2(tried.sizes.n / cut)
        # What the points themselves are uncertain by is no error of the law.
        excess = np.maximum(off**2 - (0.0 if tried.errors is None else tried.errors**2), 0.0)
        total += float(np.mean(excess / np.maximum(doublings, _CLOSEST) ** 2))
        checks += 1
    return math.sqrt(total / checks), checks
