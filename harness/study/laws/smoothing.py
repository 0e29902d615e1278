"""Times with strength borrowed from the cost model: what the law and the measurement of a case say together.

The log time of a case is y = log law + δ + ε. The error of the measurement ε has the variance of the case's interval.
The misfit δ of the law has the variance τ², the same for all cases of a series. Where τ is small, the law knows the
time of a case better than its own trials do; where it is large, the law says nothing. This is a random-effects model,
and its posterior is an empirical Bayes estimate (Morris 1983, "Parametric empirical Bayes inference", section 1). τ is
not chosen but integrated over a grid, weighted by its restricted likelihood (REML) and a weak prior.

A smoothed time serves comparisons between layers. It is never fitted, predicted from or judged again.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core.model.polynomial import Size
from harness.core.model.sweep_axes import Setting
from harness.core.results.columns import CaseResult
from harness.core.stats.interval import NORMAL

from .fitted_laws import FittedLaw
from .laws import Floats, Law, Sizes, design
from .series import Point

# The misfits that are tried, and the prior of their logarithm: about 5 %, give or take a factor of 3.3.
_MISFITS = np.geomspace(0.002, 1.5, 40)
_USUAL_MISFIT, _MISFIT_FACTOR = 0.05, 3.3
# A series needs this many more points than terms.
_FEWEST_SPARE = 4
# An interval that the law alone made would be wider by this factor: the variances of the measurements are estimates
# too, and the choice of the law is uncertain. The factor applies to the share that is borrowed.
_WIDENED = 1.45
# The standard error by which a case exceeds the median of its series, up to `_MOST_NOISIER`, shifts its time against
# the law by a factor of this standard deviation, common to the series. As much again, times `_UNUSUAL`, is misfit.
_USUAL_SHIFT, _UNUSUAL, _MOST_NOISIER = 1.4, 0.7, 0.2
# A case this many standard errors away from its law, or farther, keeps its own time: something else happens there.
_STRANGE = 3.0
# With less than this share borrowed, the case's own interval says all.
_LEAST_BORROWED = 0.05


@dataclass(frozen=True)
class Smoothed:
    """Posterior log times of the points: means and standard deviations, (points,), and the mean misfit τ of the law.

    The share that each point borrowed from the law is `borrowed`, (points,). Intervals reach `NORMAL` deviations.
    """

    means: Floats
    deviations: Floats
    borrowed: Floats
    misfit: float


def smooth(logs: Floats, variances: Floats, law_logs: Floats, slopes: Floats, precisions: Floats) -> Smoothed:
    """Combine measured log times with those of a law, all of shape (points,).

    The derivatives of the law's log time by its parameters are `slopes`, (points, parameters). The prior precisions of
    the parameters are `precisions`, (parameters,): 0 for a fitted coefficient.
    """
    off = logs - law_logs
    # A law tells the time of cases with the usual noise. The time of a noisier one, a low quantile, lies off the law in
    # proportion to its noise: by a factor that the series shows, and by chance.
    noisier = np.clip(np.sqrt(variances) - np.sqrt(np.median(variances)), -_MOST_NOISIER, _MOST_NOISIER)
    unusual = (_UNUSUAL * np.maximum(noisier, 0.0)) ** 2
    slopes, precisions = np.column_stack([slopes, noisier]), np.append(precisions, _USUAL_SHIFT**-2)
    scores, means, squares, shares = [], [], [], []
    for misfit in _MISFITS.tolist():
        weights = 1 / (variances + misfit**2 + unusual)
        information = slopes.T @ (weights[:, None] * slopes) + np.diag(precisions)
        inverse = np.linalg.pinv(information, hermitian=True)
        moment = slopes.T @ (weights * off)
        change = inverse @ moment
        left = float(weights @ off**2 - moment @ change)
        score = (np.log(weights).sum() - np.linalg.slogdet(information)[1] - left) / 2
        scores.append(score - (math.log(misfit / _USUAL_MISFIT) / math.log(_MISFIT_FACTOR)) ** 2 / 2)
        own = (misfit**2 + unusual) * weights  # the share of the case's own measurement
        means.append(law_logs + (1 - own) * (slopes @ change) + own * off)
        squares.append(own * variances + (1 - own) ** 2 * np.einsum("ij,jk,ik->i", slopes, inverse, slopes))
        shares.append(own)
    likely = np.exp(np.array(scores) - max(scores))
    likely /= likely.sum()
    mean = likely @ np.array(means)
    spread = likely @ (np.array(squares) + (np.array(means) - mean) ** 2)
    borrowed = 1 - likely @ np.array(shares)
    return Smoothed(mean, np.sqrt(spread) * (1 + (_WIDENED - 1) * borrowed), borrowed, float(likely @ _MISFITS))


def smooth_points(law: Law, points: Sequence[Point]) -> Smoothed | None:
    """Smooth the times of points by their law; None if there are too few points, or one without an interval."""
    bounded = all(point.lo > 0 and point.hi < math.inf for point in points)
    if not bounded or len(points) < len(law.terms) + _FEWEST_SPARE:
        return None
    sizes = Sizes.of(point.size for point in points)
    logs, lo, hi = np.log([(point.value, point.lo, point.hi) for point in points]).T
    costs = law(sizes)
    slopes, precisions = design(law.terms, sizes) * law.values / costs[:, None], np.zeros(len(law.terms))
    if law.known is not None and law.known.paid:
        slopes = np.column_stack([slopes, law.known(sizes) / costs])
        precisions = np.append(precisions, law.known.error**-2)
    # The floor keeps exact times exact without dividing by 0.
    deviations = np.maximum((hi - lo) / (2 * NORMAL), 1e-6)
    return smooth(logs, deviations**2, np.log(costs), slopes, precisions)


def with_times_in_law(lines: Iterable[CaseResult], laws: Iterable[FittedLaw]) -> list[CaseResult]:
    """Return the lines with `time_in_law_s` and its interval, where a law of `laws` says something about the time."""
    known: dict[tuple[str, Setting, Size], tuple[float, float, float]] = {}
    for fitted in laws:
        if fitted.series.metric == "time":
            for piece in fitted.pieces:
                for size, cost in _intervals(piece.law, piece.points):
                    known[fitted.series.impl, fitted.series.setting, size] = cost
    found = []
    for line in lines:
        time, lo, hi = known.get((line.impl, line.law_setting, line.size)) or (None, None, None)
        found.append(replace(line, time_in_law_s=time, time_in_law_lo_s=lo, time_in_law_hi_s=hi))
    return found


def _intervals(law: Law, points: Sequence[Point]) -> Iterable[tuple[Size, tuple[float, float, float]]]:
    """The size, smoothed time and interval of each point that borrows from the law."""
    smoothed = smooth_points(law, points)
    if smoothed is None:
        return
    for i, point in enumerate(points):
        mean, deviation = float(smoothed.means[i]), float(smoothed.deviations[i])
        apart = math.hypot(math.log(point.hi / point.lo) / (2 * NORMAL), smoothed.misfit)
        strange = abs(math.log(point.value / float(law(Sizes.of([point.size]))[0]))) > _STRANGE * apart
        if smoothed.borrowed[i] >= _LEAST_BORROWED and not strange:
            reach = NORMAL * deviation
            yield point.size, (math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))
