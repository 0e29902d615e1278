"""The law of one quantity of one layer, with what can be read off it along the test's axis."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.findings.laws import largest, law_of, laws_of_layer, predictor_of
from harness.findings.series import Series, series_of
from harness.scaling.exponent import exponent
from harness.scaling.law import Law, Range
from harness.scaling.terms import Term
from harness.summary import Line

# That of what is nothing everywhere, such as the FLOPs of a layer that only moves data.
_NOTHING = Law((), (), determined=True, reason="", exact=True)


@dataclass(frozen=True)
class Found:
    """A series and its law. `letter`: the axis in formulas. `expected`: see `harness.findings.laws.FittedLaw`."""

    series: Series
    law: Law
    letter: str
    expected: tuple[Term, ...] = ()

    @property
    def exponent(self) -> Range | None:
        """At the largest sizes; None where the axis takes one value."""
        if not self.law.coefficients:
            return Range(0.0, 0.0, 0.0)
        return exponent(self.law, self.letter, *largest(self.series.points).size)

    @property
    def leading(self) -> tuple[int, int]:
        """The power of the axis, and that of its logarithm, in the term that grows fastest along it."""
        return max(((getattr(t, self.letter), t.log * (self.letter == "n")) for t in self.law.terms), default=(0, 0))

    @property
    def measured(self) -> dict[tuple[int, int, int, int], float]:
        """What was measured, by (n, d, h, b)."""
        return {(p.n, p.d, p.h, p.b): p.value for p in self.series.points}

    def at(self, size: tuple[int, int, int, int]) -> float:
        """What was measured there, else what the law predicts."""
        measured = self.measured.get(size)
        return predictor_of(self.series, self.law, self.expected)(*size).value if measured is None else measured

    def __str__(self) -> str:
        text = str(self.law) if self.law.determined else f"{self.law} (undetermined)"
        return f"{text}, exponent {range_text(self.exponent)}" if self.exponent else text


def find(lines: Sequence[Line], metric: str, letter: str) -> Found | None:
    """The law of one quantity; None where it is not known at some size."""
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
    """`1.83 (1.61 to 1.98)`; the value alone where it is exact."""
    value = f"{exponent.value:.2f}"
    return value if exponent.lo == exponent.hi else f"{value} ({exponent.lo:.2f} to {exponent.hi:.2f})"
