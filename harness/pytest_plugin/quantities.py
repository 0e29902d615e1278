"""Time, memory, FLOPs, depth and operations of a layer as they grow along an axis, for assertions in a test.

A test that cannot continue ends at its own line, with one sentence: the functions here hide from its traceback.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pytest

from harness.analysis.fitted_laws import largest_size, law_of, laws_of_layer, predictor_of
from harness.analysis.series import Series, point_of, series_of
from harness.case import Case
from harness.claims import parse
from harness.errors import UsageError
from harness.fit.laws import Law, Range, Term, exponent_of
from harness.formatting import count, seconds, size
from harness.pytest_plugin.session import SIZES, Request
from harness.results.table import CaseResult

_Given = TypeVar("_Given")


def fail_on_error(take: Callable[[], _Given]) -> _Given:
    """Return what `take` returns. A UsageError is a mistake in the test and fails it."""
    __tracebackhide__ = True
    try:
        return take()
    except UsageError as error:
        message = str(error)
    return pytest.fail(message)


def passes(layer: str, lines: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """Return the lines if all are `ok`.

    A layer with any other status fails the test, but an unsupported case only skips it.
    """
    __tracebackhide__ = True
    for line in sorted(lines, key=lambda line: line.status == "unsupported"):
        where = f"{layer} at seq_len={line.seq_len} d_model={line.d_model} num_heads={line.num_heads}"
        if line.status == "unsupported":
            pytest.skip(f"{where}: {line.reason}")
        if line.status != "ok":
            pytest.fail(f"{where}: {line.status}: {line.reason}")
    return lines


# The cost model of a quantity that is 0 everywhere, such as the FLOPs of a layer that only moves data.
_NOTHING = Law((), (), determined=True, reason="", exact=True)


@dataclass(frozen=True)
class FittedQuantity:
    """The measured series of one quantity of a layer, and its cost model along the test's axis.

    `letter` is the axis in formulas. See `harness.analysis.fitted_laws.FittedLaw` for `expected`.
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
        return exponent_of(self.law, self.letter, *largest_size(self.series.points).size)

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


def fit_quantity(lines: Sequence[CaseResult], metric: str, letter: str) -> FittedQuantity | None:
    """The cost model of one quantity; None if the quantity is unknown at some size, or has no cost model."""
    one = series_of(lines, metric)
    if one is None or len(one.points) < len(lines):
        return None
    for fitted in laws_of_layer(lines):
        if fitted.series.metric == metric:
            return FittedQuantity(fitted.series, fitted.law, letter, fitted.expected)
    law = law_of(one)
    if law is None and any(point.value for point in one.points):
        return None
    return FittedQuantity(one, law or _NOTHING, letter)


def range_text(exponent: Range) -> str:
    """`1.83 (1.61 to 1.98)`, or the value alone if it is exact."""
    value = f"{exponent.value:.2f}"
    return value if exponent.lo == exponent.hi else f"{value} ({exponent.lo:.2f} to {exponent.hi:.2f})"


class QuantityLike(Protocol):
    """The owner of an exponent. `Quantity` implements it."""

    @property
    def exponent_range(self) -> Range: ...
    def decide(self, holds: Callable[[float], bool]) -> bool: ...


class Exponent(float):
    """d log cost / d log size at the largest sizes. `lo` and `hi` are the ends of its 95 % interval.

    A comparison such as `law.exponent <= 1.1` ends in one of three ways:

    - It is true if the cost model is determined and its exponent satisfies the comparison. The test chooses its own
      margin.
    - It is true or false, for any cost model, if the whole interval agrees.
    - Otherwise it is open: the measured value fails and part of its interval does not, or the points do not determine
      the cost model. Then the plugin measures as much again, at most twice, and repeats the comparison. If it stays
      open, the value decides for a determined cost model. For an undetermined one the test is skipped, with the
      reason. A test therefore neither passes nor fails by chance.

    Exact counts without an exact cost model are measured once more, at the sizes in between. Then the value decides,
    because it is the same in every run.
    """

    lo: float
    hi: float
    _quantity: QuantityLike

    def __new__(cls, quantity: QuantityLike, known: Range) -> "Exponent":
        made = super().__new__(cls, known.value)
        made.lo, made.hi, made._quantity = known.lo, known.hi, quantity
        return made

    def __le__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.le, other)

    def __lt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.lt, other)

    def __ge__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.ge, other)

    def __gt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.gt, other)

    def __repr__(self) -> str:
        """The exponent as known now: a comparison may have measured more."""
        return range_text(self._quantity.exponent_range)

    __str__ = __repr__

    def _decide(self, holds: Callable[[Any, Any], bool], other: Any) -> Any:
        __tracebackhide__ = True
        if not isinstance(other, int | float):
            return NotImplemented
        return self._quantity.decide(lambda exponent: holds(exponent, float(other)))


# How often an open question is measured again: times in more rounds, exact counts at the sizes in between.
_MOST_TIMES, _MOST_FACTS = 2, 1
_FEWEST = 3
_UNITS: dict[str, Callable[[float], str]] = {"time": seconds, "memory": size}


class Source(Protocol):
    """Where a quantity gets its lines; `again` measures more.

    `lines` and `line_at` may end the test, with the reason.
    """

    asked: Request

    def lines(self, timed: bool, again: bool = False) -> Sequence[CaseResult]: ...
    def line_at(self, case: Case) -> CaseResult: ...
    def tell(self, metric: str, text: str) -> None: ...


class Quantity:
    """The `metric` of a layer along an axis. Nothing is measured until an attribute needs it."""

    def __init__(self, source: Source, metric: str) -> None:
        self._source, self._metric = source, metric
        self._known: FittedQuantity | None = None
        self._again = 0

    @property
    def is_known(self) -> bool:
        """Whether the quantity has been measured."""
        return self._known is not None

    @property
    def law(self) -> str:
        """The cost model as text, in the letters of the sizes that vary: `8 n·d² + 4 n²·d`."""
        __tracebackhide__ = True
        return str(self._found().law)

    @property
    def values(self) -> dict[Any, float]:
        """The measured values by size, in seconds, bytes or counts.

        If several sizes vary, the keys are tuples of all of them.
        """
        __tracebackhide__ = True
        varied = self._source.asked.varied or (self._source.asked.axis,)
        places = [list(SIZES).index(name) for name in varied]
        measured = self._found().measured.items()
        return {by[places[0]] if len(places) == 1 else tuple(by[i] for i in places): value for by, value in measured}

    @property
    def exponent(self) -> Exponent:
        """The exponent at the largest sizes. `Exponent` explains comparisons with it."""
        __tracebackhide__ = True
        return Exponent(self, self.exponent_range)

    @property
    def exponent_range(self) -> Range:
        """The exponent and its 95 % interval."""
        __tracebackhide__ = True
        lately = self._found().exponent
        if lately is None:
            axis = self._source.asked.axis
            pytest.fail(f"{self._name}: {axis} takes one value, and a law needs {_FEWEST}")
        return lately

    @property
    def is_constant(self) -> bool:
        """Whether the quantity does not grow along the axis."""
        __tracebackhide__ = True
        return self._leads(0)

    @property
    def is_linear(self) -> bool:
        """Whether the term that grows fastest along the axis is proportional to it."""
        __tracebackhide__ = True
        return self._leads(1)

    @property
    def is_quadratic(self) -> bool:
        """Whether the term that grows fastest along the axis is proportional to its square."""
        __tracebackhide__ = True
        return self._leads(2)

    def at(self, **sizes: int) -> float:
        """The value at one size: `at(seq_len=512)`.

        Exact values are measured there. A time is the measured one at the cost model's own sizes, and predicted
        elsewhere.
        """
        __tracebackhide__ = True
        case = fail_on_error(lambda: self._source.asked.at(sizes))
        if self._metric == "time":
            return self._found().at((case.seq_len, case.d_model, case.num_heads, case.batch_size))
        line = self._source.line_at(case)
        point = point_of(line, self._metric)
        if point is None:
            pytest.fail(f"{self._name} at {case} is not known: {line.facts_unknown}")
        return point.value

    def follows(self, formula: str) -> bool:
        """Whether every value equals a formula in n, d and h exactly, for example `8nd² + 4n²d`.

        The formula gives the value per sequence.
        """
        __tracebackhide__ = True
        said = fail_on_error(lambda: parse(formula))
        return all(value == said(n, d, h) * b for (n, d, h, b), value in self._found().measured.items())

    def decide(self, holds: Callable[[float], bool]) -> bool:
        """Whether `holds` is true of the exponent.

        While the answer is open, measure again. If it stays open, end the test for a time without a determined cost
        model; else the value decides.
        """
        __tracebackhide__ = True
        while True:
            lately, law = self.exponent_range, self._found().law
            said = {holds(lately.lo), holds(lately.value), holds(lately.hi)}
            if len(said) == 1 or (law.determined and holds(lately.value)):
                return holds(lately.value)
            if not self._measured_again():
                break
        if self._metric == "time" and not law.determined:
            self._undecided(f"the exponent of {self._name} is {range_text(lately)}")
        return holds(lately.value)

    def __repr__(self) -> str:
        if self._known is None:
            return f"<{self._name}: not measured>"
        unit = _UNITS.get(self._metric, count)
        values = ", ".join(f"{by}: {unit(value)}" for by, value in self.values.items())
        return f"<{self._name}: {self._known}; by {', '.join(self._source.asked.varied)}: {values}>"

    @property
    def _name(self) -> str:
        return f"{self._metric} of {self._source.asked.layer}"

    def _leads(self, power: int) -> bool:
        __tracebackhide__ = True
        while not self._found().law.determined:
            if not self._measured_again():
                self._undecided(f"the law of the {self._name} is undetermined")
        return self._found().leading == (power, 0)

    def _measured_again(self) -> bool:
        __tracebackhide__ = True
        most = _MOST_TIMES if self._metric == "time" else _MOST_FACTS
        if self._again == most or self._sizes() < 2:
            return False
        self._again += 1
        self._known = None
        self._found(again=True)
        return True

    def _undecided(self, what: str) -> None:
        """End the test because the sizes do not decide.

        Exact values would stay the same, so the test fails. A time may come out differently another time, so the test
        is skipped. With fewer than three sizes it fails in both cases.
        """
        __tracebackhide__ = True
        why = f"{what}: {self._found().law.reason}"
        if self._metric != "time":
            pytest.fail(f"{why}; its exponent is known, and more sizes may tell (over=)")
        if self._sizes() < _FEWEST:
            pytest.fail(f"{why} (over=)")
        pytest.skip(f"undecided: {why}; more sizes may tell (over=), or precision='standard'")

    def _sizes(self) -> int:
        asked = self._source.asked
        return len({getattr(case, asked.axis) for case in asked.cases})

    def _found(self, again: bool = False) -> FittedQuantity:
        __tracebackhide__ = True
        if self._known is None:
            lines = self._source.lines(self._metric == "time", again)
            self._known = fit_quantity(lines, self._metric, self._source.asked.letter)
            if self._known is None:
                unknown = next((line.facts_unknown for line in lines if line.facts_unknown), "no value was measured")
                pytest.fail(f"{self._name} is not known: {unknown}")
            self._source.tell(self._metric, str(self._known))
        return self._known
