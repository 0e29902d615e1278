"""The answer: costs at the largest n, their scaling exponents, and which layer overtakes which.

Written once, shown in several places.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.findings.crossovers import Crossover, headless
from harness.findings.findings import Findings
from harness.findings.laws import FittedLaw
from harness.findings.series import setting_of
from harness.report import units
from harness.report.panels import Panel, Setting, settings
from harness.report.places import by_place, places
from harness.report.said.crossovers import sentence, surest
from harness.scaling.exponent import exponent
from harness.summary import Line

SLOPE = "slope: d log cost / d log n, by the fitted law, at the smallest n at which it holds → at the largest n"

# The most pairs to report in which one layer may overtake the other.
_MOST_PAIRS = 6

_Laws = Mapping[tuple[str, Any, str], FittedLaw]


@dataclass(frozen=True)
class CostRow:
    """One layer's costs as text, each empty if it is missing. Without a time, `time` holds the reason."""

    line: Line
    time: str
    interval: str
    memory: str
    time_slope: str
    memory_slope: str


@dataclass(frozen=True)
class Answer:
    """The answer for one setting: costs in its fullest panel at the largest n, fastest first, and sentences."""

    setting: Setting
    panel: Panel
    n: int
    rows: tuple[CostRow, ...]
    sentences: tuple[str, ...]

    @property
    def where(self) -> str:
        """The size at which the rows were measured."""
        return f"n = {self.n}, d = {self.panel.d_model}, h = {self.panel.num_heads}"


def answers(lines: Sequence[Line], findings: Findings) -> list[Answer]:
    """An answer for every setting that has a timed case. `findings` must be those of `lines`."""
    placed = by_place(findings.crossovers, headless(lines))
    laws = {(law.series.impl, law.series.setting, law.series.metric): law for law in findings.laws}
    found = []
    for setting in settings(lines):
        panel = fullest(setting.panels)
        if any(line.time_s is not None for line in panel.lines):
            n = max(line.seq_len for line in panel.lines if line.time_s is not None)
            crossing = [c for place in places(setting, panel) for c in placed.get(place, ())]
            said = (*_fastest(panel, n), *_overtaking(panel, crossing))
            found.append(Answer(setting, panel, n, _rows(panel, n, laws), said))
    return found


def fullest(panels: Sequence[Panel]) -> Panel:
    """The panel with the most timed cases; among equals the widest, then the one with the most heads."""
    return max(
        panels, key=lambda panel: (sum(line.time_s is not None for line in panel.lines), panel.d_model, panel.num_heads)
    )


def interval(line: Line) -> str:
    """The interval of a time, in per cent of the time; `one trial` without an interval, empty without a time."""
    if line.time_s is None:
        return ""
    if line.time_hi_s is None or line.time_lo_s is None:
        return "one trial"
    down, up = 100 * (1 - line.time_lo_s / line.time_s), 100 * (line.time_hi_s / line.time_s - 1)
    return f"−{down:.0f} +{up:.0f} %" if max(down, up) >= 9.95 else f"−{down:.1f} +{up:.1f} %"


def _rows(panel: Panel, n: int, laws: _Laws) -> tuple[CostRow, ...]:
    at_n = [line for line in panel.lines if line.seq_len == n]
    return tuple(
        CostRow(
            line,
            units.seconds(line.time_s) if line.time_s is not None else _untimed(line),
            interval(line),
            _memory(line),
            _slopes(panel, line, laws.get((line.impl, setting_of(line), "time"))),
            _slopes(panel, line, laws.get((line.impl, setting_of(line), "memory")))
            or ("unknown" if line.allocates_outside_torch else ""),
        )
        for line in sorted(at_n, key=lambda line: line.time_s if line.time_s is not None else float("inf"))
    )


def _untimed(line: Line) -> str:
    return "not timed" if line.status == "ok" else line.status


def _memory(line: Line) -> str:
    """The peak memory. If torch traced only a part of it: that part, and the resident memory that the kernel saw."""
    if line.peak_bytes is not None:
        return units.size(line.peak_bytes)
    if line.peak_traced_bytes is None:
        return ""
    resident = f", {units.size(line.peak_resident_bytes)} resident" if line.peak_resident_bytes is not None else ""
    return f"≥ {units.size(line.peak_traced_bytes)} traced{resident}"


def _slopes(panel: Panel, line: Line, fitted: FittedLaw | None) -> str:
    """The scaling exponents at the smallest measured n at which the law holds, and at the line's own n."""
    if fitted is None:
        return ""
    begins = max((b.n for b in fitted.law.breaks), default=0.0)
    smallest = min((one.seq_len for one in panel.of(line.impl) if one.seq_len >= begins), default=line.seq_len)
    ends = [
        exponent(fitted.law, "n", n, line.d_model, line.num_heads, line.batch_size) for n in (smallest, line.seq_len)
    ]
    return " → ".join(f"{end.value:.2f}" for end in ends if end is not None)


def _fastest(panel: Panel, n: int) -> list[str]:
    timed = [line for line in panel.lines if line.seq_len == n and line.time_s is not None]
    ranked = sorted(timed, key=lambda line: (line.time_s or 0.0, line.impl))
    if len(ranked) < 2:
        return []
    first, second = ranked[:2]
    ratio = (second.time_s or 0.0) / (first.time_s or 1.0)
    doubt = "; their intervals overlap" if _overlap(first, second) else ""
    return [f"Fastest at n = {n}: {first.impl}, {ratio:.2f} times as fast as {second.impl}{doubt}."]


def _overlap(faster: Line, slower: Line) -> bool:
    """Whether noise alone could explain why `faster` took less time."""
    return faster.time_hi_s is None or slower.time_lo_s is None or faster.time_hi_s >= slower.time_lo_s


def _overtaking(panel: Panel, crossovers: Iterable[Crossover]) -> list[str]:
    """Sentences about the n from which each attention layer costs more time than the fastest RNN, the one to beat.

    If there are more than `_MOST_PAIRS`, the surest ones are kept.
    """
    family = {line.impl: line.family for line in panel.lines}
    a_token = {
        impl: line.time_s / line.seq_len
        for impl in panel.impls()
        for line in panel.of(impl)  # in ascending n: the largest timed one stays
        if line.time_s
    }
    rnn = min((impl for impl in a_token if family[impl] == "rnn"), key=lambda impl: a_token[impl], default=None)
    pairs = [c for c in crossovers if c.metric == "time" and c.faster == rnn and family.get(c.slower) == "attention"]
    if len(pairs) <= _MOST_PAIRS:
        return [sentence(c) for c in pairs]
    left = len(pairs) - _MOST_PAIRS
    more = f"and {left} more pair{'s' if left > 1 else ''}: crossovers.csv"
    return [*map(sentence, surest(pairs)[:_MOST_PAIRS]), more]
