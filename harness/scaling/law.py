"""A fitted cost law: a sum of terms with non-negative coefficients, what is known of them, and what follows.

Numbers in, numbers out: sizes are n, d, h, b; costs are seconds, bytes or whatever the points were.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.scaling.terms import Floats, Sizes, Term, design


@dataclass(frozen=True)
class Range:
    """A value, and between what it lies with a confidence of 95 %."""

    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Coefficient:
    """What one term costs each time, and its interval."""

    term: Term
    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Hidden:
    """A term that the points do not show and do not rule out: its coefficient is `most` at most, its part of the cost

    `part` at most at any of them.
    """

    term: Term
    most: float
    part: float


@dataclass(frozen=True)
class Break:
    """Another law holds from `n` on; there the cost is `jump` times what the law below says, if there is one."""

    n: float
    jump: float | None


@dataclass(frozen=True)
class Law:
    """A cost as a sum of terms over the axes that `varied`.

    `determined`: no law with another leading term explains the points as well; else `reason` says what is missing.
    `exact`: it gives every point to the last digit.
    `covariance`: that of the coefficients, (terms, terms); an interval reaches `quantile` standard errors.
    `noise`: the points' relative distance from the law, those known badly counting less.
    `cv_error`: the relative error (root mean square) of predicting sizes left out of the fit.
    `hidden`: terms left out that may be there all the same.
    `trends`: by axis, which slopes log cost over the law may still have.
    `breaks`: where another law begins; this is the one from the last of them on.
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
        """Its terms, the slowest growing first."""
        return tuple(coefficient.term for coefficient in self.coefficients)

    @property
    def values(self) -> Floats:
        """Its coefficients, shape (terms,)."""
        return np.array([coefficient.value for coefficient in self.coefficients])

    def __call__(self, sizes: Sizes) -> Floats:
        """The cost at each size, shape (points,)."""
        return design(self.terms, sizes) @ self.values

    def at(self, n: float, d: float, h: float = 1, b: float = 1) -> float:
        """The cost at one size."""
        return float(self(Sizes.of([(n, d, h, b)]))[0])

    def error(self, gradient: Floats) -> float:
        """How far the coefficients let a quantity be off whose derivatives by them are `gradient`, (terms,).

        Infinite of a law with as many terms as points, nothing of one whose coefficients are given.
        """
        if not self.covariance.size:
            return 0.0
        if not np.isfinite(self.covariance).all():
            return math.inf
        return self.quantile * math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0))

    @property
    def leading(self) -> Term:
        """The term that grows fastest with n; of several the one with the highest powers."""
        return max(self.terms, key=lambda term: (term.growth, term.d, term.h, term.b))

    def __str__(self) -> str:
        text = ""
        for coefficient in reversed(self.coefficients):
            sign = "−" if coefficient.value < 0 else "+"
            text += (f" {sign} " if text else sign.strip("+")) + _written(coefficient)
        return text or "0"


def _written(coefficient: Coefficient) -> str:
    """The coefficient's size, without its sign, and the term: `8 n·d²`, `3.2e-09 n²`, `n`."""
    value, term = abs(coefficient.value), str(coefficient.term)
    number = f"{value:,.0f}" if value.is_integer() and value < 1e15 else f"{value:.3g}"
    if term == "1":
        return number
    return term if number == "1" else f"{number} {term}"
