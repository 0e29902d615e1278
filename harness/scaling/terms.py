"""The terms of cost models: products of powers of n, d, h and b, with or without log₂ n."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

AXES = ("n", "d", "h", "b")
_POWERS = {1: "", 2: "²", 3: "³", 4: "⁴"}
# The order of a term's factors, as theory writes them: b·h·n²·d.
_WRITTEN = ("b", "h", "n", "log n", "d")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """The sizes of points: sequence length, width, heads and batch size, each an array of shape (points,)."""

    n: Floats
    d: Floats
    h: Floats
    b: Floats

    @classmethod
    def of(cls, points: Iterable[tuple[float, float, float, float]]) -> "Sizes":
        """Build sizes from the (n, d, h, b) of each point."""
        n, d, h, b = np.array(list(points), dtype=float).reshape(-1, 4).T
        return cls(n, d, h, b)

    def __len__(self) -> int:
        return len(self.n)

    def __getitem__(self, which: NDArray[np.bool] | NDArray[np.intp]) -> "Sizes":
        """Return the sizes of some of the points, selected by a numpy mask or index array."""
        return Sizes(self.n[which], self.d[which], self.h[which], self.b[which])

    def axis(self, name: str) -> Floats:
        """Return one axis by its symbol."""
        return getattr(self, name)


@dataclass(frozen=True, order=True)
class Term:
    """The product of powers of n, d, h and b, times log₂ n to the power `log`."""

    n: int = 0
    log: int = 0
    d: int = 0
    h: int = 0
    b: int = 0

    def __call__(self, sizes: Sizes) -> Floats:
        """Return the term's value at each point, shape (points,)."""
        value = sizes.n**self.n * sizes.d**self.d * sizes.h**self.h * sizes.b**self.b
        return value * np.log2(sizes.n) ** self.log if self.log else value

    def exponent(self, axis: str, sizes: Sizes) -> Floats:
        """Return d log term / d log axis at each point, shape (points,)."""
        power = np.full(len(sizes), float(getattr(self, axis)))
        if axis == "n" and self.log:
            power += self.log / np.log(np.maximum(sizes.n, 2.0))
        return power

    @property
    def growth(self) -> tuple[int, int]:
        """The term's growth with n: the power of n, then the power of log n."""
        return self.n, self.log

    def __str__(self) -> str:
        powers = {"b": self.b, "h": self.h, "n": self.n, "log n": self.log, "d": self.d}
        factors = [name + _POWERS[powers[name]] for name in _WRITTEN if powers[name] > 0]
        below = [f"/{name}{_POWERS[-powers[name]]}" for name in _WRITTEN if powers[name] < 0]
        return ("·".join(factors) or "1") + "".join(below)


def design(terms: Iterable[Term], sizes: Sizes) -> Floats:
    """Return the value of each term at each point, shape (points, terms)."""
    return np.stack([term(sizes) for term in terms], axis=1)


def varied(sizes: Sizes) -> tuple[str, ...]:
    """Return the axes that take more than one value. A law says nothing about the others."""
    return tuple(axis for axis in AXES if len(np.unique(sizes.axis(axis))) > 1)


# The terms of a layer's time and memory. Terms that differ only in axes that do not vary are merged into one term
# without these axes.
_COSTS = (
    Term(),  # one launch
    Term(h=1),  # one launch per head
    Term(log=1),
    Term(n=1),  # one launch per step
    Term(n=1, h=1),
    Term(n=1, d=1),  # rows of activations
    Term(n=1, d=2),  # projections
    Term(n=1, log=1),
    Term(n=1, log=1, d=1),
    Term(n=2),  # scores
    Term(n=2, h=1),
    Term(n=2, d=1),  # attention
    Term(n=3),
    Term(d=1),
    Term(d=2),  # weights
)


def candidates(axes: Iterable[str]) -> tuple[Term, ...]:
    """Return the terms that a law may have if `axes` vary, each once.

    If the batch size varies, each term occurs with a factor b and without it. Work is done for each sequence, while
    costs paid once do not depend on b.
    """
    kept = set(axes)
    found: dict[Term, None] = {}
    for term in _COSTS:
        reduced = Term(term.n, term.log, term.d * ("d" in kept), term.h * ("h" in kept))
        reduced = Term(reduced.n * ("n" in kept), reduced.log * ("n" in kept), reduced.d, reduced.h)
        found[reduced] = None
        if "b" in kept:
            found[Term(reduced.n, reduced.log, reduced.d, reduced.h, b=1)] = None
    return tuple(found)
