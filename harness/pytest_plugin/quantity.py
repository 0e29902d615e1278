"""One quantity of a layer as it grows along an axis: time, memory, FLOPs, depth or operations."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pytest

from harness.case import Case
from harness.claims import parse
from harness.findings.series import point_of
from harness.pytest_plugin.asked import SIZES, Asked
from harness.pytest_plugin.ending import or_fail
from harness.pytest_plugin.exponent import Exponent
from harness.pytest_plugin.found import Found, find, range_text
from harness.report.units import count, seconds, size
from harness.scaling.law import Range
from harness.summary import Line

# How often an open question is measured again: times in more rounds, exact counts at the sizes in between.
_MOST_TIMES, _MOST_FACTS = 2, 1
_FEWEST = 3
_UNITS: dict[str, Callable[[float], str]] = {"time": seconds, "memory": size}


class Source(Protocol):
    """Where a quantity gets its lines; `again` measures more.

    `lines` and `line_at` may end the test, with the reason.
    """

    asked: Asked

    def lines(self, timed: bool, again: bool = False) -> Sequence[Line]: ...
    def line_at(self, case: Case) -> Line: ...
    def tell(self, metric: str, text: str) -> None: ...


class Quantity:
    """The `metric` of the layer. Nothing is measured until an attribute needs it."""

    def __init__(self, source: Source, metric: str) -> None:
        self._source, self._metric = source, metric
        self._known: Found | None = None
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
        """The exponent at the largest sizes. `harness.pytest_plugin.exponent` explains comparisons with it."""
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
        case = or_fail(lambda: self._source.asked.at(sizes))
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
        said = or_fail(lambda: parse(formula))
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

    def _found(self, again: bool = False) -> Found:
        __tracebackhide__ = True
        if self._known is None:
            lines = self._source.lines(self._metric == "time", again)
            self._known = find(lines, self._metric, self._source.asked.letter)
            if self._known is None:
                unknown = next((line.facts_unknown for line in lines if line.facts_unknown), "nothing of it was seen")
                pytest.fail(f"{self._name} is not known: {unknown}")
            self._source.tell(self._metric, str(self._known))
        return self._known
