"""Costs at sizes that were not measured, and how far off they may be.

Three things make a prediction uncertain: which law it is and its coefficients; that points lie off any law; and, beyond
what was measured, that a law which held so far need not go on: caches overflow, other kernels take over. The last is
measured where it can be: laws of the smaller sizes alone are held against the larger ones, and by so much a doubling as
they failed there, the law of all may fail beyond.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from harness.scaling.law import Law, Range
from harness.scaling.pieces import fit_pieces
from harness.scaling.subsets import ROUNDING
from harness.scaling.terms import Floats, Sizes, Term, design

CONFIDENCE = 0.95
NORMAL = 1.96
# What nobody has measured may differ by this a doubling, as if so many trials had shown it.
PRIOR_DRIFT = 0.10
_PRIOR_WEIGHT = 2.0
# A law of fewer sizes predicts nothing that its successor would be like.
_FEWEST_SIZES = 3
# Coefficients of which nothing is known leave nothing known; a factor says that too.
_FARTHEST = 100.0
# So many of them tell enough.
_MOST_CUTS = 8
# How far ahead such a law is held against the larger sizes, as a factor of n.
_REACH = 4


@dataclass(frozen=True)
class Predictor:
    """A law with what is needed to say how far off it may be.

    `scatter`: how far points lie off it, and `drift` how far it goes astray a doubling outside, both standard
    deviations of log cost, the latter from `trials` tries. `lowest` and `highest`: what was measured, by axis, and
    `dearest`, the largest cost.
    """

    law: Law
    scatter: float
    drift: float
    trials: float
    lowest: dict[str, float]
    highest: dict[str, float]
    dearest: float

    def __call__(self, n: float, d: float, h: float = 1, b: float = 1) -> Range:
        """The cost at a size, and between what it lies with 95 %."""
        size = Sizes.of([(n, d, h, b)])
        value = self._averaged(size)
        if value == 0 or (self.law.exact and self.law.determined):
            # A peak is that of the greatest phase: beyond what was measured another may be greater still, never less.
            more = NORMAL * self.drift * self._beyond(size)
            return Range(value, value, value * math.exp(more))
        down, up = self._of_the_law(size, value)
        quantile = float(stdtrit(self.trials, (1 + CONFIDENCE) / 2))
        beside = quantile**2 * (self.scatter**2 + (self.drift * self.outside(n, d, h, b)) ** 2)
        return Range(
            value, value * math.exp(-math.hypot(down, beside**0.5)), value * math.exp(math.hypot(up, beside**0.5))
        )

    def _averaged(self, size: Sizes) -> float:
        """What the law and its rivals say, as a geometric mean, each by how closely it follows the points.

        Which of them was chosen is partly chance; what they say together errs less beyond the points (Hoeting et al.
        1999, "Bayesian model averaging").
        """
        laws = [law for law in (self.law, *self.law.rivals) if float(law(size)[0]) > 0]
        if not laws or self.law.exact:
            return max(float(self.law(size)[0]), 0.0)
        least = max(min(law.noise for law in laws), ROUNDING)
        weights = np.array([(least / max(law.noise, least)) ** 2 for law in laws])
        said = np.log([float(law(size)[0]) for law in laws])
        return float(np.exp(weights @ said / weights.sum()))

    def outside(self, n: float, d: float, h: float = 1, b: float = 1) -> float:
        """How many doublings a size lies outside what was measured: those of the axes, or of the cost if more."""
        size = Sizes.of([(n, d, h, b)])
        doublings = self._beyond(size)
        return max(doublings, math.log2(float(self.law(size)[0]) / self.dearest)) if doublings else 0.0

    def _beyond(self, size: Sizes) -> float:
        return sum(_doublings(float(size.axis(axis)[0]), self.lowest[axis], top) for axis, top in self.highest.items())

    def _of_the_law(self, size: Sizes, value: float) -> tuple[float, float]:
        """How far down and up, as logarithms, the law's coefficients reach, and what its rivals say instead."""
        reach, own = self.law.error(design(self.law.terms, size)[0]), float(self.law(size)[0])
        said = [value, own - reach, own + reach, *(float(rival(size)[0]) for rival in self.law.rivals)]
        lo, hi = max(min(said), value / _FARTHEST), min(max(said), value * _FARTHEST)
        return math.log(value / lo), math.log(hi / value)


def _doublings(value: float, lowest: float, highest: float) -> float:
    return math.log2(max(value / highest, lowest / value, 1.0))


def predictor(
    sizes: Sizes, costs: Floats, spreads: Floats | None = None, expected: Sequence[Term] = (), law: Law | None = None
) -> Predictor:
    """The predictor of a series; `law` where it is known already. For the other arguments see `fit`.

    What was measured is what lies beyond the law's last break; how far laws go astray is told by all sizes.
    """
    law = law or fit_pieces(sizes, costs, spreads, expected)
    own = sizes.n >= law.breaks[-1].n if law.breaks else np.full(len(costs), True)
    off = np.log(costs[own] / law(sizes[own]))
    # An exact law is not led astray by noise: nothing of its past speaks against it.
    drift, trials = (PRIOR_DRIFT, math.inf) if law.exact else _drift(sizes, costs, spreads, expected)
    ends = {axis: sizes[own].axis(axis) for axis in law.varied}
    return Predictor(
        law,
        scatter=float(np.sqrt(np.mean(off**2))),
        drift=drift,
        trials=trials,
        lowest={axis: float(values.min()) for axis, values in ends.items()},
        highest={axis: float(values.max()) for axis, values in ends.items()},
        dearest=float(costs[own].max()),
    )


def _drift(sizes: Sizes, costs: Floats, spreads: Floats | None, expected: Sequence[Term]) -> tuple[float, float]:
    """By how much a doubling laws of the smaller n fail at the next larger ones; of how many tries."""
    total, trials = _PRIOR_WEIGHT * PRIOR_DRIFT**2, _PRIOR_WEIGHT
    cuts = np.unique(sizes.n)[_FEWEST_SIZES - 1 : -1]
    for cut in cuts[:: -(-len(cuts) // _MOST_CUTS) or 1]:
        kept = sizes.n <= cut
        tried = (sizes.n > cut) & (sizes.n <= _REACH * cut)
        if not tried.any():
            continue
        law = fit_pieces(sizes[kept], costs[kept], None if spreads is None else spreads[kept], expected)
        said = law(sizes[tried])
        dearer = np.log2(np.maximum(said, costs[tried]) / costs[kept].max())
        doublings = np.maximum(np.log2(sizes.n[tried] / cut), dearer)
        total += float(np.mean((np.log(costs[tried] / said) / doublings) ** 2))
        trials += 1
    return math.sqrt(total / trials), trials
