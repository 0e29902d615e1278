"""A cost model (law): its terms, the law with its uncertainty, the weights of points, and scaling exponents.

Coefficients of a fitted law are not negative; those of an exact law may be. Numbers in, numbers out: sizes are n, d, h,
b, and the letters of a layer's own axes. Costs are seconds, bytes or whatever unit the points have.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from harness.core.model import formatting
from harness.core.model.polynomial import AXES, OwnSize, Polynomial, Term, parse, sum_text
from harness.core.stats.interval import CONFIDENCE, NORMAL

Floats = NDArray[np.float64]
# n, d, h, b, and the layer's own.
Size = tuple[float, float, float, float] | tuple[float, float, float, float, OwnSize]


@dataclass(frozen=True)
class Sizes:
    """The sizes of points: sequence length, width, heads and batch size, each an array of shape (points,).

    `own` are those along a layer's own axes, by their letters.
    """

    n: Floats
    d: Floats
    h: Floats
    b: Floats
    own: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, points: Iterable[Size]) -> "Sizes":
        """Build sizes from the (n, d, h, b) of each point, or (n, d, h, b, own) with the same own letters in each."""
        held = list(points)
        n, d, h, b = np.array([point[:4] for point in held], dtype=float).reshape(-1, 4).T
        own = [dict(point[4]) for point in held if len(point) > 4]
        letters = own[0] if own else {}
        return cls(n, d, h, b, {letter: np.array([one[letter] for one in own], dtype=float) for letter in letters})

    def __len__(self) -> int:
        return len(self.n)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> "Sizes":
        """Return the sizes of some of the points, selected by a numpy mask or index array."""
        own = {letter: values[which] for letter, values in self.own.items()}
        return Sizes(self.n[which], self.d[which], self.h[which], self.b[which], own)

    @property
    def log(self) -> Floats:
        """log₂ n."""
        return np.log2(self.n)

    def axis(self, name: str) -> Floats:
        """Return one axis by its symbol."""
        return self.own[name] if name in self.own else getattr(self, name)


def design(terms: Iterable[Term], sizes: Sizes) -> Floats:
    """Return the value of each term at each point, shape (points, terms)."""
    return np.stack([term(sizes) for term in terms], axis=1)


def largest(sizes: Sizes) -> NDArray[np.intp]:
    """The index of the largest size, shape (1,)."""
    return np.lexsort((sizes.b, sizes.h, sizes.d, sizes.n))[-1:]


def varying_axes(sizes: Sizes) -> tuple[str, ...]:
    """Return the axes that take more than one value, lengths first. A law says nothing about the others."""
    axes = sorted((*AXES, *sizes.own), key=lambda axis: axis not in "nm")
    return tuple(axis for axis in axes if len(np.unique(sizes.axis(axis))) > 1)


# The terms of a layer's time and memory. Terms that differ only in axes that do not vary are merged into one term
# without these axes.
# A launch, one for each head or step, rows of activations (nd), projections (nd²), scores (n², hn²), attention (n²d)
# and weights (d²) are among them.
_COSTS = parse("1 + h + log n + n + hn + nd + nd² + n·log n + nd·log n + n² + hn² + n²d + n³ + d + d²").terms
# What each letter w of a layer's own axes may add: work within windows or states, then steps of whole blocks.
_OWN_TIMES = parse("1 + n + hn + nd + d").terms
_OWN_OVER = parse("n + nd²").terms
# What the length m of a source adds: its projections too.
_SOURCE_TIMES = (*_OWN_TIMES, Term(d=2))


def candidate_terms(axes: Iterable[str]) -> tuple[Term, ...]:
    """Return the terms that a law may have if `axes` vary, each once.

    If the batch size varies, each term occurs with a factor b and without it. Work is done for each sequence, while
    costs paid once do not depend on b. The letter w of a layer's own axis stands for a window, a state or a block: the
    costs w, nw, hnw, nwd, wd, and n/w, nd²/w. The length m of a source has md² too, and no quotients.
    """
    kept = tuple(axes)
    batches = (0, 1) if "b" in kept else (0,)
    every = list(_COSTS)
    for own in (axis for axis in kept if axis not in AXES):
        times, over = (_SOURCE_TIMES, ()) if own == "m" else (_OWN_TIMES, _OWN_OVER)
        every += [Term.of({**term.powers, own: 1}) for term in times]
        every += [Term.of({**term.powers, own: -1}) for term in over]
    return tuple(dict.fromkeys(replace(term.along(kept), b=b) for term in every for b in batches))


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

    Its coefficient is at most `most`. Its share of the cost is at most `part` at any of the points. With a coefficient
    of 1, the coefficients of the law fall by `absorbed`, (terms,), to follow the points.
    """

    term: Term
    most: float
    part: float
    absorbed: Floats = field(compare=False, repr=False)


@dataclass(frozen=True)
class Break:
    """The `n` from which another law holds, or the `bytes` of the largest memory block; `n` is then its smallest n."""

    n: float
    bytes: float | None = None

    @property
    def position(self) -> float:
        """Where the break lies: its `bytes`, or else its `n`."""
        return self.n if self.bytes is None else self.bytes


class KnownCost(Protocol):
    """A part of a cost that is known beforehand, and so not fitted: that of page faults (`page_faults.py`)."""

    @property
    def error(self) -> float:
        """The relative standard error."""

    @property
    def paid(self) -> bool:
        """Whether the cost is above 0 at a measured size."""

    def __call__(self, sizes: Sizes) -> Floats:
        """Return the cost at each size, shape (points,)."""

    def unmeasured(self, sizes: Sizes) -> tuple[Floats, Floats]:
        """Return what may come on top that no measured size had: expected and most at each size, (points,)."""

    def exponents(self, axis: str, sizes: Sizes) -> Floats:
        """Return d log cost / d log axis at each size, shape (points,)."""

    def largest_memory_block(self, sizes: Sizes) -> Floats:
        """Return the bytes of the largest memory block that a call allocates at each size, shape (points,)."""


# The known cost takes at most this share of a measured one, whatever its own error: costs are above 0.
_MOST_KNOWN = 0.9


@dataclass(frozen=True)
class Costs:
    """The costs of points, `values` of shape (points,), at their `sizes`.

    The relative standard errors of the costs are `errors`, if known. A part of the costs may be `known` beforehand.
    """

    sizes: Sizes
    values: Floats
    errors: Floats | None = None
    known: KnownCost | None = None

    def __getitem__(self, which: NDArray[np.bool_]) -> "Costs":
        """The costs of some of the points."""
        errors = None if self.errors is None else self.errors[which]
        return Costs(self.sizes[which], self.values[which], errors, self.known)

    def known_part(self) -> tuple[Floats, Floats | None]:
        """Return the known part of each cost, at most nine tenths of it, and the errors with its uncertainty added."""
        if self.known is None:
            return np.zeros(len(self.values)), self.errors
        added = np.minimum(self.known(self.sizes), _MOST_KNOWN * self.values)
        return added, None if self.errors is None else np.hypot(self.errors, self.known.error * added / self.values)


def position_of(sizes: Sizes, known: KnownCost | None, along_memory: bool) -> Floats:
    """Return the n of each size, or its largest memory block in bytes if that is known, (points,)."""
    return known.largest_memory_block(sizes) if known is not None and along_memory else sizes.n


@dataclass(frozen=True)
class Law:
    """A cost as a sum of terms over the axes that `varied`, and of a `known` cost if there is one.

    `determined`: no law with another leading term along n explains the points as well. If not, `reason` says why. The
    `reason` of a determined law says why its exponent along another axis is open.
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
    known: KnownCost | None = field(default=None, compare=False)

    def position(self, sizes: Sizes) -> Floats:
        """Return where each size lies among the breaks, (points,): its n, or its largest memory block in bytes."""
        return position_of(sizes, self.known, any(one.bytes is not None for one in self.breaks))

    def open_along(self, reasons: Mapping[str, str]) -> "Law":
        """The law with exponents that have no bounds along each axis with a reason for that."""
        unbounded = {axis: (-math.inf, math.inf) for axis, why in reasons.items() if why}
        reason = self.reason or "; ".join(filter(None, reasons.values()))
        return replace(self, trends={**self.trends, **unbounded}, reason=reason)

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
        fitted = design(self.terms, sizes) @ self.values
        return fitted if self.known is None else fitted + self.known(sizes)

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
    def polynomial(self) -> Polynomial:
        """The sum of an exact law's terms."""
        return Polynomial({coefficient.term: rational(coefficient.value) for coefficient in self.coefficients})

    def __str__(self) -> str:
        if not (self.coefficients or self.determined):
            return "?"
        return sum_text((one.value, _coefficient_text(one)) for one in reversed(self.coefficients)) + self.known_text

    @property
    def known_text(self) -> str:
        """The known cost as the last part of the sum; empty if no measured size has any."""
        return " + page faults" if self.known is not None and self.known.paid else ""


# No window or chunk is larger.
_MOST_DENOMINATOR = 10_000


def rational(value: float) -> Fraction:
    """The coefficient of an exact law as a fraction: 1/48 for 0.020833333333333332."""
    return Fraction(value).limit_denominator(_MOST_DENOMINATOR)


def _coefficient_text(coefficient: Coefficient) -> str:
    """The coefficient's absolute value and its term: `8 n·d²`, `3.2e-09 n²`, `n`. One without an interval is exact."""
    value, term = abs(coefficient.value), str(coefficient.term)
    number = f"{value:,.15g}" if coefficient.lo == coefficient.hi else f"{value:.3g}"
    if term == "1":
        return number
    return term if number == "1" else f"{number} {term}"


# Points with smaller relative errors than this weigh the same, because no law is more accurate than this.
LAW_ERROR = 0.02
# No relative error is taken to be smaller than this.
_LEAST = 1e-3
# Low, because a law competes with many rivals. At this level no law was named wrongly in the draws of
# benchmarks/bench_laws.py. At ten times this level, one in four thousand was.
REJECTED_BELOW = 1e-4
# Residuals below this share of the cost are rounding and count as none.
ROUNDING = 1e-7


def reach(freedom: float) -> float:
    """Return how many standard errors a 95 % interval reaches to each side: a quantile of Student's t."""
    return float(stdtrit(max(freedom, 1), (1 + CONFIDENCE) / 2))


def weights_of(costs: Floats, errors: Floats | None) -> Floats:
    """Return the factors by which to multiply costs in a fit: their reciprocals, reduced for imprecise points.

    `errors` holds the relative standard error of each cost, or is None if unknown.
    """
    if errors is None:
        return 1 / costs
    return LAW_ERROR / (costs * np.sqrt(np.minimum(errors, 1.0) ** 2 + LAW_ERROR**2))


def relative_errors_of(lo: Floats, hi: Floats) -> Floats:
    """Return the relative standard errors of 95 % intervals: at most 1, and 1 for an unbounded interval."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.log(hi / lo) / (2 * NORMAL)
    return np.where(np.isfinite(error), np.minimum(error, 1.0), 1.0)


def shrunken_errors(errors: Floats) -> Floats:
    """Move each error halfway to the median, on a log scale.

    An error estimated from a few trials is itself imprecise. Without this, a point whose four trials happen to agree
    would outweigh all others.
    """
    floored = np.maximum(errors, _LEAST)
    return np.sqrt(floored * np.median(floored))


def exponent_of(law: Law, axis: str, n: float, d: float, h: float = 1, b: float = 1, own: OwnSize = ()) -> Range | None:
    """Return the scaling exponent along `axis` at a size; None if the axis did not vary.

    The axis is 'n', 'd', 'h', 'b', or the letter of an own one.

    This is d log cost / d log axis. One exponent cannot describe a whole curve. Attention with its projections costs
    8nd² + 4n²d FLOPs. Its exponent rises from 1 to 2 around n = 2d.

    The 95 % confidence interval covers every law that the points leave open. It contains the intervals of the law and
    of its rivals, and the law with each hidden term added. The trend that the points may still have widens it.
    """
    return exponent_at(law, axis, Sizes.of([(n, d, h, b, own)]))


def exponent_at(law: Law, axis: str, size: Sizes) -> Range | None:
    """Return `exponent_of` at one size."""
    if axis not in law.varied or not law.coefficients:
        return None
    each = [_exponent_of_one(one, axis, size) for one in (law, *law.rivals)]
    down, up = law.trends.get(axis, (0.0, 0.0))
    value = each[0].value
    hidden = [_with_hidden(law, one, axis, size, value) for one in law.hidden]
    return Range(
        value, min([*hidden, *(one.lo + down for one in each)]), max([*hidden, *(one.hi + up for one in each)])
    )


def _exponent_of_one(law: Law, axis: str, size: Sizes) -> Range:
    """The exponent of one law, its interval by propagation of the covariance.

    d exponent / d c_j = (term_j / cost) · (exponent_j − exponent).
    """
    values = design(law.terms, size)[0]
    powers = np.array([term.exponent(axis, size.n[0]) for term in law.terms])
    cost, added, faster = float(values @ law.values), 0.0, 0.0
    if law.known is not None:
        added, faster = float(law.known(size)[0]), float(law.known.exponents(axis, size)[0])
    mean = (float((values * law.values) @ powers) + added * faster) / (cost + added)
    if law.exact:
        return Range(mean, mean, mean)
    half_width = law.error(values / (cost + added) * (powers - mean))
    if added > 0 and law.known is not None:
        powers = np.append(powers, faster)
        half_width = math.hypot(half_width, NORMAL * law.known.error * added / (cost + added) * abs(faster - mean))
    # A sum grows no slower than its slowest term and no faster than its fastest.
    return Range(mean, max(mean - half_width, float(powers.min())), min(mean + half_width, float(powers.max())))


def _with_hidden(law: Law, hidden: Hidden, axis: str, size: Sizes, without: float) -> float:
    """The exponent with the largest possible hidden term; `without` is the law's own."""
    cost, added = float(law(size)[0]), hidden.most * float(hidden.term(size)[0])
    share = min(added / cost, 1.0)
    return (1 - share) * without + share * hidden.term.exponent(axis, size.n[0])


# With a wider interval than this (±0.25), an exponent could be that of another order.
WIDEST = 0.5


def signed_exponent(value: float) -> str:
    """Format an exponent with two decimals and a true minus sign."""
    return f"{value + 0.0:.2f}".replace("-", "−").replace("−0.00", "0.00")


def exponent_value(found: Range, is_determined: bool) -> str:
    """Format an exponent without its interval; `?` if that is wide, or if the cost model is not determined."""
    return signed_exponent(found.value) if is_determined and found.hi - found.lo <= WIDEST else "?"


def exponent_text(found: Range | None, is_determined: bool = True) -> str:
    """Format an exponent with its interval: `1.87 (1.75 to 1.98)`; an exact one as `1.87`, and None as ``.

    One that is not determined is `? (0.00 to 3.00)`.
    """
    if found is None:
        return ""
    value = exponent_value(found, is_determined)
    if found.hi - found.lo < 0.005:  # both ends would be written alike
        return value
    return f"{value} ({formatting.between(found.lo, found.hi, signed_exponent)})"
