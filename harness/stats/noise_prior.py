"""The noise of a machine, learnt from all cases of a run: most intervals become narrower with it.

Four trials of one case hardly show how noisy it is, so an interval from them alone is a t interval with about 1.5
degrees of freedom. The other cases of the run, on the same device with as many threads, met the same machine. Their
spreads give a prior for the standard deviation of the noise of a case, and Bayes' rule combines it with the case's own
spread. This is the idea of moderated variances (Smyth 2004, "Linear models and empirical Bayes methods for assessing
differential expression in microarray experiments", section 4), applied to the lower part of the trials.

The prior is a Student t distribution of log σ, around a straight line over the log of the time. A case whose trials
differ more than the prior lets expect keeps the interval that it has alone: the others say nothing about it. (The
same reason leads to robust moderation in Phipson et al. 2016, "Robust hyperparameter estimation protects against
hypervariable genes".) If the cases have nothing in common, the prior is wide and has no effect.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.stats.interval import CONFIDENCE, FEWEST_FREE, Floats, Numbers, simulated

# A prior from fewer cases would be too uncertain: in simulation, intervals with it covered 91 to 94 % with eight cases.
FEWEST_CASES = 12
# Cases of more trials are few, and their spread would have to be simulated.
_MOST_TRIALS = 128
# No more than this many cases are used, evenly spread over all. Further ones change nothing.
_MOST_CASES = 2_000
_FREEDOM = 5
# The log of the noise varies between cases by at least this much, whatever the run shows.
_LEAST_SCALE = 0.25
# Weak assumptions about the prior's own parameters: the noise hardly depends on the time, as a power of it, and
# differs between cases by a factor of 1.5, give or take a factor of two.
_SLOPE_SCALE, _USUAL_SCALE, _SCALE_FACTOR = 0.3, 0.4, 0.7
# Up to the first number of standard deviations above the expected log spread, the prior applies fully. From the second
# one on, only the case's own interval counts. In between, the two are mixed linearly.
_EXPECTED, _UNEXPECTED = 1.0, 2.0
# The table of distances holds log spreads this far from the centre of the prior.
_FARTHEST = 4.0
_NODES = 33
_QUANTILES = 100
# Widens the interval for interim looks, and for noise with a tail of rare fast trials, for which normal draws give 1 %
# too little coverage.
_INFLATION = 1.05


@dataclass(frozen=True)
class NoisePrior:
    """The prior of the noise of a case: log σ has a Student t distribution around a line, with this `scale`.

    The line has the value `level` at the log time `middle`, and rises by `slope`.
    """

    level: float
    slope: float
    middle: float
    scale: float

    def log_sigma(self, times_s: Floats) -> Floats:
        """The centre of the prior of log σ at these times (cases,)."""
        return self.level + self.slope * (np.log(times_s) - self.middle)

    def log_distances(self, spreads: Floats, numbers: Numbers, times_s: Floats, alone: Floats) -> Floats:
        """Log distances down and up to the ends of the 95 % interval (2, cases).

        `alone` (2, cases) holds those from each case's own trials; the other arrays are (cases,). Cases of at least
        `FEWEST_FREE` trials know their noise, and borrow nothing.
        """
        distances = alone.copy()
        # Trials that all agree have a spread of 0, by chance or by rounding.
        spreads = np.maximum(spreads, np.exp(self.log_sigma(times_s) - _FARTHEST))
        above = np.log(spreads) - self.log_sigma(times_s)
        for number in np.unique(numbers[(numbers > 1) & (numbers < FEWEST_FREE)]).tolist():
            here = numbers == number
            at, factors = _table(number, round(self.scale, 2))
            borrowed = [np.interp(above[here], at, one) * _INFLATION * spreads[here] for one in factors]
            share = self._share_alone(above[here], number)
            distances[:, here] = (1 - share) * np.array(borrowed) + share * distances[:, here]
        return distances

    def _share_alone(self, above: Floats, number: int) -> Floats:
        """How far a case's own interval replaces the borrowed one, from 0 to 1, by the log spread (cases,)."""
        log_spreads = _log_spreads(number)
        deviation = math.sqrt(log_spreads.var() + self.scale**2 * _FREEDOM / (_FREEDOM - 2))
        share = ((above - log_spreads.mean()) / deviation - _EXPECTED) / (_UNEXPECTED - _EXPECTED)
        return np.clip(share, 0.0, 1.0)


def _log_density(deviation: Floats, scale: float) -> Floats:
    """The log density of the prior at a deviation from its centre, up to a constant."""
    return -(_FREEDOM + 1) / 2 * np.log1p((deviation / scale) ** 2 / _FREEDOM) - math.log(scale)


@cache
def _table(number: int, scale: float) -> tuple[Floats, Floats]:
    """Multiples `(down, up)` of the spread (2, nodes), tabulated over log(spread) minus the prior's centre (nodes,).

    Each simulated case has a spread R at σ = 1. If the observed spread is r, its σ is r / R. So the draws, weighted by
    the prior density of log (r / R), are draws from the posterior.
    """
    too_high, spreads = simulated(number)
    ratio = too_high / spreads
    order = np.argsort(ratio)
    ratio, log_spreads = ratio[order], np.log(spreads[order])
    at = np.linspace(-_FARTHEST, _FARTHEST, _NODES)
    tail = (1 - CONFIDENCE) / 2
    found = np.empty((2, _NODES))
    for node, distance in enumerate(at):
        log_weights = _log_density(distance - log_spreads, scale)
        total = np.cumsum(np.exp(log_weights - log_weights.max()))
        up, down = np.interp((tail, 1 - tail), total / total[-1], ratio)
        found[:, node] = down, max(0.0, -up)
    return at, found


def learn(spreads: Floats, numbers: Numbers, times_s: Floats) -> NoisePrior | None:
    """Learn the prior from the spreads, numbers of trials and times of a run's cases; all are (cases,).

    The parameters have the largest marginal likelihood under weak assumptions (Smyth 2004, section 6.2, takes moments).
    Returns None if fewer than `FEWEST_CASES` cases have a spread.
    """
    known = np.flatnonzero((numbers > 1) & (numbers <= _MOST_TRIALS) & (spreads > 0))
    if len(known) < FEWEST_CASES:
        return None
    from scipy.optimize import minimize  # imported here: it takes 0.1 s, and small runs do not need it

    known = known[np.linspace(0, len(known) - 1, min(len(known), _MOST_CASES)).astype(np.int64)]
    log_times = np.log(times_s[known])
    middle = float(log_times.mean())
    # log σ of each case for each quantile of the spread at σ = 1: (cases, quantiles)
    log_sigmas = np.log(spreads[known])[:, None] - np.stack([_log_spreads(n) for n in numbers[known].tolist()])
    start = np.array([float(np.median(log_sigmas)), 0.0, math.log(_USUAL_SCALE)])

    def loss(parameters: Iterable[float]) -> float:
        level, slope, log_scale = parameters
        log_densities = _log_density(log_sigmas - level - (slope * (log_times - middle))[:, None], math.exp(log_scale))
        likelihood = np.logaddexp.reduce(log_densities, axis=1).sum()
        assumed = (slope / _SLOPE_SCALE) ** 2 + ((log_scale - math.log(_USUAL_SCALE)) / _SCALE_FACTOR) ** 2
        return float(assumed / 2 - likelihood)

    steps = {
        "initial_simplex": start + np.vstack([np.zeros(3), np.diag([0.3, 0.2, 0.5])]),
        "xatol": 0.01,
        "fatol": 0.01,
    }
    level, slope, log_scale = minimize(loss, start, method="Nelder-Mead", options=steps).x
    # With few cases, the scale (first term) and the centre (second term) are uncertain themselves.
    variance = math.exp(2 * log_scale) * (1 + 3 / len(known)) + 1 / len(known)
    return NoisePrior(float(level), float(slope), middle, max(_LEAST_SCALE, math.sqrt(variance)))


@cache
def _log_spreads(number: int) -> Floats:
    """Logs of quantiles of the spread of `number` trials with σ = 1 (quantiles,)."""
    return np.log(np.quantile(simulated(number)[1], (np.arange(_QUANTILES) + 0.5) / _QUANTILES))
