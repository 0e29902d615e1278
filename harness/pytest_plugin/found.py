"""The cost model of one quantity of one layer, and what follows from it along the test's axis."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.findings.laws import largest, law_of, laws_of_layer, predictor_of
from harness.findings.series import Series, series_of
from harness.scaling.exponent import exponent
from harness.scaling.law import Law, Range
from harness.scaling.terms import Term
from harness.summary import Line

# The cost model of a quantity that is 0 everywhere, such as the FLOPs of a layer that only moves data.
_NOTHING = Law((), (), determined=True, reason="", exact=True)


@dataclass(frozen=True)
class Found:
    """A series and its cost model.

    `letter` is the axis in formulas. See `harness.findings.laws.FittedLaw` for `expected`.
    """

    series: Series
    law: Law
    letter: str
    expected: tuple[Term, ...] = ()

    @property
    def exponent(self) -> Range | None:
        """The exponent at the largest sizes; None if the axis takes one value."""
        if not self.law.coefficients:
            return Range(0.0, 0.0, 0.0)
        return exponent(self.law, self.letter, *largest(self.series.points).size)

    @property
    def leading(self) -> tuple[int, int]:
        """The powers of the axis and of its logarithm in the term that grows fastest along the axis."""
        return max(((getattr(t, self.letter), t.log * (self.letter == "n")) for t in self.law.terms), default=(0, 0))

    @property
    def measured(self) -> dict[tuple[int, int, int, int], float]:
        """The measured values by (n, d, h, b)."""
        return {(p.n, p.d, p.h, p.b): p.value for p in self.series.points}

    def at(self, size: tuple[int, int, int, int]) -> float:
        """The measured value at this size, or the cost model's prediction if the size was not measured."""
        measured = self.measured.get(size)
        return predictor_of(self.series, self.law, self.expected)(*size).value if measured is None else measured

    def __str__(self) -> str:
        text = str(self.law) if self.law.determined else f"{self.law} (undetermined)"
        return f"{text}, exponent {range_text(self.exponent)}" if self.exponent else text


def find(lines: Sequence[Line], metric: str, letter: str) -> Found | None:
    """The cost model of one quantity; None if the quantity is unknown at some size, or has no cost model."""
    one = series_of(lines, metric)
    if one is None or len(one.points) < len(lines):
        return None
    for fitted in laws_of_layer(lines):
        if fitted.series.metric == metric:
            return Found(fitted.series, fitted.law, letter, fitted.expected)
    law = law_of(one)
    if law is None and any(point.value for point in one.points):
        return None
    return Found(one, law or _NOTHING, letter)


def range_text(exponent: Range) -> str:
    """`1.83 (1.61 to 1.98)`, or the value alone if it is exact."""
    value = f"{exponent.value:.2f}"
    return value if exponent.lo == exponent.hi else f"{value} ({exponent.lo:.2f} to {exponent.hi:.2f})"
