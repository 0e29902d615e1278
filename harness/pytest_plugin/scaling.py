"""The objects behind the fixtures: `scaling(MyLayer)` with its quantities, and `layer_facts(MyLayer)`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pytest

from harness.case import Case
from harness.pytest_plugin.quantities import Exponent, Quantity, fail_on_error, passes
from harness.pytest_plugin.session import PytestSession, Request, one_case, precision_named, read_request
from harness.results.table import CaseResult


class Scaling:
    """The fixture `scaling`. `no_time` says why no time may be measured now; None if it may."""

    def __init__(self, measuring: PytestSession, no_time: str | None) -> None:
        self._measuring, self._no_time = measuring, no_time

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

        `layer` is a class or a name: `attention.fused`, `module:Class`. `axes` are the other axes, as on the command
        line. Sizes may have several values, and the cost model is then in each of them. The others have one value:
        `mode`, `dtype`, `device`, `threads`, `allocator`, `mask`, `padding_fraction`, `kv_len`. The `precision` of
        times is `quick`, `standard` or `strict`.
        """
        __tracebackhide__ = True
        asked = fail_on_error(lambda: read_request(layer, axis, over, precision, axes, _heads_by(self._measuring)))
        return ScalingLaw(asked, self._measuring, self._no_time)

    def __repr__(self) -> str:
        return "<scaling>"


class ScalingLaw:
    """Measures when an attribute needs it: facts once, and time only for `time` and `exponent`."""

    def __init__(self, asked: Request, measuring: PytestSession, no_time: str | None) -> None:
        self.asked, self._measuring, self._no_time = asked, measuring, no_time
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
        __tracebackhide__ = True
        return self.time.exponent

    def __repr__(self) -> str:
        case = self.asked.cases[0]
        time = f"; {self.time!r}" if self.time.is_known else ""
        return f"<{self.asked.layer} along {self.asked.axis}, {case.mode}, {case.dtype}, {case.device}{time}>"

    def lines(self, timed: bool, again: bool = False) -> Sequence[CaseResult]:
        """Return one line per case, with facts and, if `timed`, times. End the test if a case has none.

        `again` measures more. For times, as many rounds again are added. For facts, the sizes in between are added, as
        far as they can be measured.
        """
        __tracebackhide__ = True
        if timed and self._no_time and "--benchmark-skip" in self._no_time:
            pytest.skip(self._no_time)
        facts = self._checked(lambda: self._measuring.facts(self.asked.cases, self.asked.precision))
        if not timed:
            between = self._measuring.facts(self.asked.between(), self.asked.precision) if again else []
            return [*facts, *(line for line in between if line.status == "ok")]
        if self._no_time:
            pytest.skip(f"{self._no_time}; {self.asked.layer} is verified, and its facts can be asserted all the same")
        return self._checked(lambda: self._measuring.times(self.asked.cases, self.asked.precision, again))

    def line_at(self, case: Case) -> CaseResult:
        """Return the facts of one case at any size. End the test if it has none."""
        __tracebackhide__ = True
        return self._checked(lambda: self._measuring.facts([case], self.asked.precision))[0]

    def tell(self, metric: str, text: str) -> None:
        """Store a line for the session's summary."""
        case = self.asked.cases[0]
        setting = " ".join(text for text in (case.mode, case.mask if case.mask != "none" else "") if text)
        self._measuring.told[f"{self.asked.layer}  {setting}  {metric} along {self.asked.axis}"] = text

    def _checked(self, take: Callable[[], list[CaseResult]]) -> Sequence[CaseResult]:
        __tracebackhide__ = True
        lines = fail_on_error(lambda: _on_device(self._measuring, self.asked.cases[0], take))
        return passes(self.asked.layer, lines)


@dataclass(frozen=True)
class LayerFacts:
    """The exact facts of one call, as in `summary.csv`. Unknown ones are None; `facts_unknown` says why."""

    flops: int | None
    flops_full: int | None
    peak_bytes: int | None
    saved_bytes: int | None
    weights_bytes: int | None
    min_bytes: int | None
    depth: int | None
    ops: int | None
    backend: str | None
    backend_fallback: str | None
    facts_unknown: str | None


class LayerFactsOf:
    """The fixture `layer_facts`."""

    def __init__(self, measuring: PytestSession) -> None:
        self._measuring = measuring

    def __call__(self, layer: object, **axes: Any) -> LayerFacts:
        """The facts of one case. `axes` are those of `scaling`, each with one value."""
        __tracebackhide__ = True
        case = fail_on_error(lambda: one_case(layer, axes, _heads_by(self._measuring)))
        take = _on_device(self._measuring, case, lambda: self._measuring.facts([case], precision_named("quick")))
        line = passes(case.impl.rpartition(":")[2], take)[0]
        return LayerFacts(**{field.name: getattr(line, field.name) for field in fields(LayerFacts)})


def _heads_by(measuring: PytestSession) -> Callable[[str], bool]:
    return lambda impl: measuring.traits(impl).has_heads


def _on_device(measuring: PytestSession, case: Case, take: Callable[[], list[CaseResult]]) -> list[CaseResult]:
    __tracebackhide__ = True
    if case.device == "cuda" and not measuring.has_gpu():
        pytest.skip("torch sees no CUDA device here")
    return take()
