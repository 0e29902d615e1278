"""The noise of a machine, learnt from all cases of a run: most intervals become narrower with it.

Four trials of one case hardly show how noisy it is, so an interval from them alone is a t interval with about 1.5
degrees of freedom. The other cases of the run, on the same device with as many threads, met the same machine. Their
spreads give a prior for the standard deviation of the noise of a case, and Bayes' rule combines it with the case's own
spread. This is the idea of moderated variances (Smyth 2004, "Linear models and empirical Bayes methods for assessing
differential expression in microarray experiments", section 4), applied to the lower part of the trials.

The prior is a Student t distribution of log σ, around a straight line over the log of the time. Before a run shows
anything, the noise of a machine is known as well: `USUAL` says 10 %, give or take a factor of 3.3. The more cases a run
has, the more its own cases decide.

A case whose trials differ more than the prior lets expect gets the interval that it has under `USUAL`: the others say
nothing about it. (The same reason leads to robust moderation in Phipson et al. 2016, "Robust hyperparameter estimation
protects against hypervariable genes".) If the cases have nothing in common, the prior is wide and has little effect.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from .interval import CONFIDENCE, FEWEST_FREE, Floats, Numbers, simulated

# Cases of more trials are few, and their spread would have to be simulated.
_MOST_TRIALS = 128
# No more than this many cases are used, at even distances among all. Further ones change nothing.
_MOST_CASES = 2_000
_FREEDOM = 5
# The log of the noise varies between cases by at least this much, whatever the run shows.
_LEAST_SCALE = 0.25
# Weak assumptions about the prior's own parameters: the noise is around the first value, known as a factor of e to the
# second. It hardly depends on the time, as a power of it, and differs between cases by a factor of 1.5, give or take a
# factor of two.
_USUAL_NOISE, _NOISE_FACTOR = 0.1, 1.2
_SLOPE_SCALE, _USUAL_SCALE, _SCALE_FACTOR = 0.3, 0.4, 0.7
# Up to the first number of standard deviations above the expected log spread, the prior applies fully. From the second
# one on, `USUAL` does. In between, the two are mixed linearly.
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

    def log_distances(self, spreads: Floats, numbers: Numbers, times_s: Floats, own_distances: Floats) -> Floats:
        """Log distances down and up to the ends of the 95 % interval (2, cases).

        `own_distances` (2, cases) holds those from each case's own trials; the other arrays are (cases,). Cases of at
        least `FEWEST_FREE` trials know their noise, and borrow nothing.
        """
        distances = own_distances.copy()
        # Trials that all agree have a spread of 0, by chance or by rounding.
        spreads = np.maximum(spreads, np.exp(self.log_sigma(times_s) - _FARTHEST))
        for number in np.unique(numbers[(numbers > 1) & (numbers < FEWEST_FREE)]).tolist():
            here = numbers == number
            borrowed, usual = (prior._borrowed(number, spreads[here], times_s[here]) for prior in (self, USUAL))
            share = self._unexpected(np.log(spreads[here]) - self.log_sigma(times_s[here]), number)
            distances[:, here] = (1 - share) * borrowed + share * usual
        return distances

    def _borrowed(self, number: int, spreads: Floats, times_s: Floats) -> Floats:
        """Distances under this prior (2, cases), for cases of one number of trials."""
        at, factors = _table(number, round(self.scale, 2))
        above = np.log(spreads) - self.log_sigma(times_s)
        return _INFLATION * spreads * np.array([np.interp(above, at, multiples) for multiples in factors])

    def _unexpected(self, above: Floats, number: int) -> Floats:
        """How far log spreads (cases,) lie beyond what this prior lets expect: 0 to 1."""
        log_spreads = _log_spreads(number)
        deviation = math.sqrt(log_spreads.var() + self.scale**2 * _FREEDOM / (_FREEDOM - 2))
        share = ((above - log_spreads.mean()) / deviation - _EXPECTED) / (_UNEXPECTED - _EXPECTED)
        return np.clip(share, 0.0, 1.0)


# The prior of a run that has shown nothing yet.
USUAL = NoisePrior(math.log(_USUAL_NOISE), 0.0, 0.0, _NOISE_FACTOR)


def _density(deviations: Floats, scale: float) -> Floats:
    """The density of the prior at deviations from its centre, up to a constant, for `_FREEDOM` = 5."""
    above = 1 + deviations * deviations * (1 / (_FREEDOM * scale * scale))
    return 1 / (scale * above * above * above)  # as a power, it would take ten times as long


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
    factors = np.empty((2, _NODES))
    for node, distance in enumerate(at):
        total = np.cumsum(_density(distance - log_spreads, scale))
        up, down = np.interp((tail, 1 - tail), total / total[-1], ratio)
        factors[:, node] = down, max(0.0, -up)
    return at, factors


def learn(spreads: Floats, numbers: Numbers, times_s: Floats) -> NoisePrior:
    """Learn the prior from the spreads, numbers of trials and times of a run's cases; all are (cases,).

    The parameters have the largest marginal likelihood under weak assumptions (Smyth 2004, section 6.2, takes moments).
    If no case has a spread, the prior is `USUAL`.
    """
    usable = np.flatnonzero((numbers > 1) & (numbers <= _MOST_TRIALS) & (spreads > 0))
    if not len(usable):
        return USUAL
    from scipy.optimize import minimize  # imported here: it takes 0.1 s

    usable = usable[np.linspace(0, len(usable) - 1, min(len(usable), _MOST_CASES)).astype(np.int64)]
    log_times = np.log(times_s[usable])
    middle = float(log_times.mean())
    # log σ of each case for each quantile of the spread at σ = 1: (cases, quantiles)
    log_sigmas = np.log(spreads[usable])[:, None] - np.stack([_log_spreads(n) for n in numbers[usable].tolist()])
    start = np.array([float(np.median(log_sigmas)), 0.0, math.log(_USUAL_SCALE)])

    def loss(parameters: Iterable[float]) -> float:
        level, slope, log_scale = parameters
        densities = _density(log_sigmas - (level + slope * (log_times - middle))[:, None], math.exp(log_scale))
        likelihood = np.log(densities.sum(axis=1)).sum()
        assumed = ((level - USUAL.level) / _NOISE_FACTOR) ** 2 + (slope / _SLOPE_SCALE) ** 2
        assumed += ((log_scale - math.log(_USUAL_SCALE)) / _SCALE_FACTOR) ** 2
        return float(assumed / 2 - likelihood)

    simplex = start + np.vstack([np.zeros(3), np.diag([0.3, 0.2, 0.5])])
    steps = {"initial_simplex": simplex, "xatol": 0.01, "fatol": 0.01}
    level, slope, log_scale = minimize(loss, start, method="Nelder-Mead", options=steps).x
    # With few cases, the scale (first term) and the centre (second term) are uncertain themselves.
    variance = math.exp(2 * log_scale) * (1 + 3 / len(usable)) + _NOISE_FACTOR**2 / (len(usable) + 1)
    return NoisePrior(float(level), float(slope), middle, max(_LEAST_SCALE, math.sqrt(variance)))


@cache
def _log_spreads(number: int) -> Floats:
    """Logs of quantiles of the spread of `number` trials with σ = 1 (quantiles,)."""
    return np.log(np.quantile(simulated(number)[1], (np.arange(_QUANTILES) + 0.5) / _QUANTILES))
