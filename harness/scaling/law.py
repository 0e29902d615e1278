"""A cost model (law): a sum of terms with coefficients, and the uncertainty of both.

Coefficients of a fitted law are not negative; those of an exact law may be. Numbers in, numbers out: sizes are
n, d, h, b. Costs are seconds, bytes or whatever unit the points have.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.scaling.terms import Floats, Sizes, Term, design


@dataclass(frozen=True)
class Range:
    """A value and the ends of its 95 % interval."""

    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Coefficient:
    """The coefficient of one term and the ends of its 95 % confidence interval."""

    term: Term
    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Hidden:
    """A term that the points neither show nor rule out.

    Its coefficient is at most `most`. Its share of the cost is at most `part` at any of the points.
    """

    term: Term
    most: float
    part: float


@dataclass(frozen=True)
class Break:
    """The `n` from which another law holds.

    The cost there is `jump` times the prediction of the law below. `jump` is None if no law is known below.
    """

    n: float
    jump: float | None


@dataclass(frozen=True)
class Law:
    """A cost as a sum of terms over the axes that `varied`.

    `determined`: no law with another leading term explains the points as well. If not, `reason` says why.
    `exact`: the law gives every point to the last digit.
    `covariance`: covariance of the coefficients, shape (terms, terms). Intervals reach `quantile` standard errors.
    `noise`: relative distance of the points from the law. Imprecise points count less.
    `cv_error`: relative error (root mean square) of predicting sizes left out of the fit.
    `hidden`: terms that are not in the law and not ruled out.
    `trends`: by axis, the lowest and highest slope that log(cost / law) may still have.
    `breaks`: each n from which another law begins. This law holds from the last of them on.
    `rivals`: other laws that explain the points as well.
    """

    coefficients: tuple[Coefficient, ...]
    varied: tuple[str, ...]
    determined: bool
    reason: str
    exact: bool = False
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)), compare=False, repr=False)
    quantile: float = 0.0
    noise: float = 0.0
    cv_error: float | None = None
    hidden: tuple[Hidden, ...] = ()
    trends: Mapping[str, tuple[float, float]] = field(default_factory=dict, compare=False)
    breaks: tuple[Break, ...] = ()
    rivals: tuple["Law", ...] = field(default=(), repr=False)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The law's terms, the slowest growing first."""
        return tuple(coefficient.term for coefficient in self.coefficients)

    @property
    def values(self) -> Floats:
        """The law's coefficients, shape (terms,)."""
        return np.array([coefficient.value for coefficient in self.coefficients])

    def __call__(self, sizes: Sizes) -> Floats:
        """Return the cost at each size, shape (points,)."""
        return design(self.terms, sizes) @ self.values

    def at(self, n: float, d: float, h: float = 1, b: float = 1) -> float:
        """Return the cost at one size."""
        return float(self(Sizes.of([(n, d, h, b)]))[0])

    def error(self, gradient: Floats) -> float:
        """The half-width of the interval of a quantity, from the uncertainty of the coefficients.

        `gradient`, shape (terms,), holds the quantity's derivatives by the coefficients. The result is infinite for a
        law with as many terms as points. It is 0 for a law whose coefficients are given.
        """
        if not self.covariance.size:
            return 0.0
        if not np.isfinite(self.covariance).all():
            return math.inf
        return self.quantile * math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0))

    @property
    def leading(self) -> Term:
        """The term that grows fastest with n. Ties go to the higher powers of d, then h, then b."""
        return max(self.terms, key=lambda term: (term.growth, term.d, term.h, term.b))

    def __str__(self) -> str:
        text = ""
        for coefficient in reversed(self.coefficients):
            sign = "−" if coefficient.value < 0 else "+"
            text += (f" {sign} " if text else sign.strip("+")) + _written(coefficient)
        return text or "0"


def _written(coefficient: Coefficient) -> str:
    """The coefficient's absolute value and its term: `8 n·d²`, `3.2e-09 n²`, `n`."""
    value, term = abs(coefficient.value), str(coefficient.term)
    number = f"{value:,.0f}" if value.is_integer() and value < 1e15 else f"{value:.3g}"
    if term == "1":
        return number
    return term if number == "1" else f"{number} {term}"
