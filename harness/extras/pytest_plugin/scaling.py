"""How a layer's time, memory, FLOPs, depth and operations grow along an axis, and its exact facts, for assertions.

A test that cannot continue ends at its own line, with one sentence: this module hides from its traceback.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, partialmethod
from typing import Any, TypeVar

import pytest

from harness.core.layers import layer_lookup
from harness.core.model import formatting, own_axes
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.polynomial import Size, leading
from harness.core.model.sweep_axes import Case, device_kind
from harness.core.results.columns import CaseResult
from harness.core.results.row import FACTS
from harness.study.check.check_rules import Verdict
from harness.study.laws.fitted_laws import FittedLaw, law_of, laws_of_layer, predictor_of
from harness.study.laws.laws import Range, exponent_of, exponent_text
from harness.study.laws.series import point_of, series_of, sizes_by_letter
from harness.study.report.text.cost_models import break_text

from .shared_measurements import PytestSession, Request, one_case, precision_named, read_request

__tracebackhide__ = True
_Given = TypeVar("_Given")


def _fail_on_error(take: Callable[[], _Given]) -> _Given:
    """Return what `take` returns. A UsageError is a mistake in the test and fails it."""
    try:
        return take()
    except UsageError as error:
        message = str(error)
    return pytest.fail(message)


def _checked(
    measuring: PytestSession, layer: str, case: Case, take: Callable[[], list[CaseResult]]
) -> list[CaseResult]:
    """Return the lines that `take` measures on the device of the case, if all are `ok`.

    A layer with any other status fails the test, but an unsupported case only skips it.
    """
    kind = device_kind(case.device)
    if kind != "cpu" and not _fail_on_error(lambda: measuring.has_gpu(kind)):
        pytest.skip(f"torch sees no {kind.upper()} device here")
    lines = _fail_on_error(take)
    for line in sorted(lines, key=lambda line: line.status == "unsupported"):
        where = f"{layer} at seq_len={line.seq_len} d_model={line.d_model} num_heads={line.num_heads}"
        if line.status == "unsupported":
            pytest.skip(f"{where}: {line.reason}")
        if line.status != "ok":
            pytest.fail(f"{where}: {line.status}: {line.reason}")
    return lines


def _fit(lines: Sequence[CaseResult], metric: str) -> FittedLaw | None:
    """The cost model of one quantity; None if the quantity is unknown at some size."""
    series = series_of(lines, metric)
    if series is None or len(series.points) < len(lines):
        return None
    for fitted in laws_of_layer(lines):
        if fitted.series.metric == metric:
            return fitted
    return FittedLaw(series, law_of(series), (), None, None)


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
    _quantity: "Quantity"

    def __new__(cls, quantity: "Quantity", measured: Range) -> "Exponent":
        made = super().__new__(cls, measured.value)
        made.lo, made.hi, made._quantity = measured.lo, measured.hi, quantity
        return made

    def __repr__(self) -> str:
        """The exponent as known now: a comparison may have measured more."""
        return exponent_text(self._quantity.exponent_range())

    __str__ = __repr__

    def _decide(self, holds: Callable[[Any, Any], bool], other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        return self._quantity.decide(lambda exponent: holds(exponent, float(other)))

    __le__ = partialmethod(_decide, operator.le)
    __lt__ = partialmethod(_decide, operator.lt)
    __ge__ = partialmethod(_decide, operator.ge)
    __gt__ = partialmethod(_decide, operator.gt)


# How often an open question is measured again: times in more rounds, exact counts at the sizes in between.
_MOST_TIMES, _MOST_FACTS = 2, 1
_FEWEST = 3
_UNITS = {"time": formatting.seconds, "memory": formatting.size}


class Quantity:
    """The `metric` of a layer along an axis. Nothing is measured until an attribute needs it."""

    def __init__(self, source: "ScalingLaw", metric: str) -> None:
        self._source, self._request, self._metric = source, source.request, metric
        self._known: FittedLaw | None = None
        self._again = 0

    @property
    def is_measured(self) -> bool:
        """Whether the quantity has been measured."""
        return self._known is not None

    @property
    def law(self) -> str:
        """The cost model as text, in the letters of the sizes that vary: `8 n·d² + 4 n²·d`, or `8 n from n = 256 on`.

        An undetermined one says so.
        """
        return _law_text(self._found())

    @property
    def values(self) -> dict[Any, float]:
        """The measured values by size, in seconds, bytes or counts.

        If several sizes vary, the keys are tuples of all of them.
        """
        varied = self._request.varied or (self._request.axis,)
        by_letters = operator.itemgetter(*(self._request.letters[name] for name in varied))
        return {by_letters(sizes_by_letter(size)): value for size, value in self._measured().items()}

    @property
    def exponent(self) -> Exponent:
        """The exponent at the largest sizes. `Exponent` explains comparisons with it."""
        return Exponent(self, self.exponent_range())

    def exponent_range(self) -> Range:
        """The exponent at the largest sizes and its 95 % interval."""
        lately = self._exponent_of(self._found())
        if lately is None:
            pytest.fail(f"{self._name}: {self._request.axis} takes one value, and a law needs {_FEWEST}")
        return lately

    @property
    def is_constant(self) -> bool:
        """Whether the quantity does not grow along the axis."""
        return self._leads(0)

    @property
    def is_linear(self) -> bool:
        """Whether the term that grows fastest along the axis is proportional to it."""
        return self._leads(1)

    @property
    def is_quadratic(self) -> bool:
        """Whether the term that grows fastest along the axis is proportional to its square."""
        return self._leads(2)

    def at(self, **sizes: int) -> float:
        """The value at one size: `at(seq_len=512)`.

        Exact values are measured there. A time is the measured one at the cost model's own sizes, and predicted
        elsewhere.
        """
        case = _fail_on_error(lambda: self._request.at(sizes))
        if self._metric == "time":
            own_size = own_axes.sizes_of(case, self._request.own_axes)
            at, fitted = (case.seq_len, case.d_model, case.num_heads, case.batch_size, own_size), self._found()
            if at in self._measured():
                return self._measured()[at]
            return predictor_of(fitted.series, fitted.law, fitted.expected)(*at).value
        (line,) = self._source.facts([case])
        point = point_of(line, self._metric)
        if point is None:
            pytest.fail(f"{self._name} at {case} is not known: {line.facts_unknown}")
        return point.value

    def follows(self, formula: str) -> bool:
        """Whether every value equals a formula in n, d, h and g exactly, for example `8nd² + 4n²d`.

        The formula gives the value per sequence. It may have the letters of the layer's own axes.
        """
        request = self._request
        letters = own_axes.letters_of_texts([request.own_axes])
        polynomial = _fail_on_error(lambda: layer_lookup.formula_at(formula, request.cases[0], letters))
        return all(
            value == polynomial.value(n, d, h, 1, own) * b for (n, d, h, b, own), value in self._measured().items()
        )

    def decide(self, holds: Callable[[float], bool]) -> bool:
        """Whether `holds` is true of the exponent.

        While the answer is open, measure again. If it stays open, end the test for a time without a determined cost
        model; else the value decides.
        """
        while True:
            lately, law = self.exponent_range(), self._found().law
            answers = {holds(lately.lo), holds(lately.value), holds(lately.hi)}
            if len(answers) == 1 or (law.determined and holds(lately.value)):
                return holds(lately.value)
            if not self._measured_again():
                break
        if self._metric == "time" and not law.determined:
            self._undecided(f"the exponent of {self._name} is {exponent_text(lately)}")
        return holds(lately.value)

    def __repr__(self) -> str:
        if self._known is None:
            return f"<{self._name}: not measured>"
        unit = _UNITS.get(self._metric, formatting.count)
        values = ", ".join(f"{by}: {unit(value)}" for by, value in self.values.items())
        return f"<{self._name}: {self._text(self._known)}; by {', '.join(self._request.varied)}: {values}>"

    @property
    def _name(self) -> str:
        return f"{self._metric} of {self._request.layer}"

    def _leads(self, power: int) -> bool:
        while not self._found().law.determined:
            if not self._measured_again():
                self._undecided(f"the law of the {self._name} is undetermined")
        return leading(self._found().law.terms, self._request.letter) == (power, 0)

    def _measured_again(self) -> bool:
        most = _MOST_TIMES if self._metric == "time" else _MOST_FACTS
        if self._again == most or len(self._request.sizes) < 2:
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
        why = f"{what}: {self._found().law.reason}"
        if self._metric != "time":
            pytest.fail(f"{why}; its exponent is known, and more sizes may tell (over=)")
        if len(self._request.sizes) < _FEWEST:
            pytest.fail(f"{why} (over=)")
        pytest.skip(f"{Verdict.UNDECIDED.outcome}: {why}; more sizes may tell (over=), or precision='standard'")

    def _found(self, again: bool = False) -> FittedLaw:
        if self._known is None:
            lines = self._source.lines(self._metric == "time", again)
            self._known = _fit(lines, self._metric)
            if self._known is None:
                unknown = next((line.facts_unknown for line in lines if line.facts_unknown), "no value was measured")
                pytest.fail(f"{self._name} is not known: {unknown}")
            if str(self._known.law) == "?":
                pytest.fail(f"{self._name} has no law: {self._known.law.reason}")
            self._source.tell(self._metric, self._text(self._known))
        return self._known

    def _measured(self) -> dict[Size, float]:
        """The measured values by size."""
        return {point.size: point.value for point in self._found().series.points}

    def _exponent_of(self, fitted: FittedLaw) -> Range | None:
        """None if the axis takes one value. A quantity may be 0 everywhere, such as the FLOPs of a copy."""
        if not fitted.law.coefficients:
            return Range(0.0, 0.0, 0.0)
        return exponent_of(fitted.law, self._request.letter, *fitted.series.largest.size)

    def _text(self, fitted: FittedLaw) -> str:
        text, exponent = _law_text(fitted), self._exponent_of(fitted)
        return f"{text}, exponent {exponent_text(exponent)}" if exponent else text


def _law_text(fitted: FittedLaw) -> str:
    """The cost model, whether it is determined and, if another one holds at smaller sizes, from where on it holds."""
    text = f"{fitted.law} {break_text(fitted)}".rstrip()
    return text if fitted.law.determined else f"{text} (undetermined)"


@dataclass(frozen=True)
class Scaling:
    """The fixture `scaling`. `no_time` says why no time may be measured now; None if it may."""

    _measuring: PytestSession
    _no_time: str | None

    def __call__(
        self,
        layer: object,
        axis: str = "seq_len",
        over: Iterable[int] | None = None,
        *,
        precision: str = "quick",
        **axes: Any,
    ) -> "ScalingLaw":
        """How the layer grows along `axis`: `seq_len`, `d_model`, `num_heads` or `batch_size`, at the sizes `over`.

        The axis may be one that the layer declares, such as `window`.
        `layer` is a class or a name: `attention.fused`, `module:Class`. `axes` are the other axes, as on the command
        line. Sizes may have several values, and the cost model is then in each of them. The others, such as `mode`
        or `dtype`, have one value. The `precision` of times is `quick`, `standard` or `strict`.
        """
        request = _fail_on_error(lambda: read_request(layer, axis, over, precision, axes, self._measuring))
        return ScalingLaw(request, self._measuring, self._no_time)

    def __repr__(self) -> str:
        return "<scaling>"


class ScalingLaw:
    """Measures when an attribute needs it: facts once, and time only for `time` and `exponent`."""

    def __init__(self, request: Request, measuring: PytestSession, no_time: str | None) -> None:
        self.request, self._measuring, self._no_time = request, measuring, no_time
        # Units: seconds; bytes beyond weights and inputs; FLOPs, a multiply-add being 2; operations on the longest
        # dependency chain; all operations.
        self.time = Quantity(self, "time")
        self.memory = Quantity(self, "memory")
        self.flops = Quantity(self, "flops")
        self.depth = Quantity(self, "depth")
        self.ops = Quantity(self, "ops")

    @property
    def exponent(self) -> Exponent:
        """The exponent of time."""
        return self.time.exponent

    def __repr__(self) -> str:
        case = self.request.cases[0]
        time = f"; {self.time!r}" if self.time.is_measured else ""
        return f"<{self.request.layer} along {self.request.axis}, {case.mode}, {case.dtype}, {case.device}{time}>"

    def lines(self, timed: bool, again: bool = False) -> Sequence[CaseResult]:
        """Return one line per case, with facts and, if `timed`, times. End the test if a case has none.

        `again` measures more. For times, as many rounds again are added. For facts, the sizes in between are added, as
        far as they can be measured.
        """
        if timed and self._no_time and "--benchmark-skip" in self._no_time:
            pytest.skip(self._no_time)
        facts = self.facts(self.request.cases)
        if not timed:
            between = self._measuring.facts(self.request.between(), self.request.precision) if again else []
            return [*facts, *(line for line in between if line.status == "ok")]
        if self._no_time:
            pytest.skip(
                f"{self._no_time}; {self.request.layer} is verified, and its facts can be asserted all the same"
            )
        take = partial(self._measuring.times, self.request.cases, self.request.precision, again)
        return _checked(self._measuring, self.request.layer, self.request.cases[0], take)

    def facts(self, cases: Iterable[Case]) -> list[CaseResult]:
        """Return the facts of cases at any size. End the test if one has none."""
        take = partial(self._measuring.facts, cases, self.request.precision)
        return _checked(self._measuring, self.request.layer, self.request.cases[0], take)

    def tell(self, metric: str, text: str) -> None:
        """Store a line for the session's summary."""
        case = self.request.cases[0]
        setting = case.mode if case.mask == "none" else f"{case.mode} {case.mask}"
        self._measuring.summary[f"{self.request.layer}  {setting}  {metric} along {self.request.axis}"] = text


class LayerFacts:
    """The exact facts of one call, as attributes with the names of `summary.csv`: `facts.flops`, `facts.peak_bytes`.

    Unknown ones are None; `facts_unknown` says why.
    """

    def __init__(self, line: CaseResult) -> None:
        self._facts = {name: getattr(line, name) for name in FACTS}

    def __getattr__(self, name: str) -> Any:
        if name not in FACTS:
            raise AttributeError(f"there is no fact {name!r}{did_you_mean(name, FACTS)}")
        return self._facts[name]

    def __repr__(self) -> str:
        return f"LayerFacts({', '.join(f'{name}={value!r}' for name, value in self._facts.items())})"


@dataclass(frozen=True)
class LayerFactsOf:
    """The fixture `layer_facts`."""

    _measuring: PytestSession

    def __call__(self, layer: object, **axes: Any) -> LayerFacts:
        """The facts of one case. `axes` are those of `scaling`, each with one value."""
        case = _fail_on_error(lambda: one_case(layer, axes, self._measuring.has_heads))
        take = partial(self._measuring.facts, [case], precision_named("quick"))
        return LayerFacts(_checked(self._measuring, case.impl.rpartition(":")[2], case, take)[0])
