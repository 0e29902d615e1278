"""Costs as text: the answer for each setting, with costs and scaling exponents, and which layer overtakes which.

Each sentence is written here once, and the reports show it in several places.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import formatting
from harness.analysis.analyse import Analysis
from harness.analysis.crossovers import Crossover, layers_without_heads
from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.series import Setting, setting_of
from harness.fit.laws import exponent_of
from harness.report.facets import Panel, PanelSetting, facets, lines_by_facet, panel_settings
from harness.results.table import CaseResult

METRIC_NAMES = {"time": "time", "memory": "peak memory", "flops": "work", "depth": "sequential depth"}


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e6 else formatting.power_of_ten(value)


_TEXT: dict[str, Callable[[float], str]] = {
    "time": formatting.seconds,
    "memory": formatting.size,
    "flops": lambda value: f"{_count(value)} FLOPs",
    "depth": _count,
}


def cost_text(metric: str, value: float) -> str:
    """A cost with its unit: `2.13 ms`, `6.00 MiB`, `4.19·10⁸ FLOPs`, `770`. Raises KeyError for an unknown metric."""
    return _TEXT[metric](value)


def between_text(lo: float, hi: float, text: Callable[[float], str]) -> str:
    """An interval: `1.98 ms to 2.40 ms`; with an unknown end `at least 1.98 ms` or the like."""
    if math.isfinite(lo) and math.isfinite(hi):
        return f"{text(lo)} to {text(hi)}"
    return (
        f"at least {text(lo)}" if math.isfinite(lo) else f"at most {text(hi)}" if math.isfinite(hi) else "not bounded"
    )


# Axes whose values need no name beside them.
_BARE = ("mode", "dtype", "device")
_NAMES = {"padding_fraction": "padding", "kv_len": "source"}


@dataclass(frozen=True)
class SettingLabel:
    """Names a setting by what distinguishes it from the others of a text; the name of a single setting is empty."""

    varying: tuple[str, ...]

    @classmethod
    def among(cls, settings: Iterable[Setting]) -> "SettingLabel":
        """Make a label for all the settings that a text mentions."""
        seen = list(dict.fromkeys(settings))
        axes = ("mode", "dtype", "device", "mask", "threads", "allocator", "padding_fraction", "kv_len")
        return cls(tuple(axis for axis in axes if len({getattr(one, axis) for one in seen}) > 1))

    def beside_mode(self) -> "SettingLabel":
        """This label without the mode, for texts that give the mode anyway."""
        return SettingLabel(tuple(axis for axis in self.varying if axis != "mode"))

    def __call__(self, setting: Setting) -> str:
        return ", ".join(
            getattr(setting, axis) if axis in _BARE else f"{_NAMES.get(axis, axis)} {getattr(setting, axis)}"
            for axis in self.varying
        )


def crossing_sentences(found: Iterable[Crossover]) -> list[Crossover]:
    """The pairs that cross within the measured range, or may cross: each pair once, time first, then by n.

    In every other pair one layer costs more at every n, and the table of costs shows which.
    """
    pairs: dict[tuple[Any, ...], Crossover] = {}
    for c in found:
        if _crosses(c) or not c.decided:
            names = frozenset((c.slower, c.faster))
            pair = (names, c.setting, c.metric, c.d_model, c.num_heads, c.batch_size)
            if pair not in pairs or _crosses(c):
                pairs[pair] = c
    return sorted(pairs.values(), key=lambda c: (c.metric != "time", not _crosses(c), c.seq_len or 0.0))


def surest_crossover(found: Iterable[Crossover]) -> list[Crossover]:
    """Sort: certain crossings by n, then pairs decided at every n, then undecided pairs. Ties keep their order."""
    return sorted(found, key=lambda c: (not _crosses(c), not c.decided, c.seq_len or 0.0))


def _crosses(c: Crossover) -> bool:
    return c.seq_len is not None and c.seq_len > 0


def crossover_sentence(c: Crossover) -> str:
    """The n from which one layer costs more than another, in words.

    `attention.naive costs more time than rnn.torch from n = 541 (498 to 600) on.`
    """
    more = f"costs more {METRIC_NAMES[c.metric]} than {c.faster}"
    at_all = f"n = {c.measured_from} to {c.measured_to}" if c.measured_to > c.measured_from else f"n = {c.measured_to}"
    if c.seq_len is not None:
        return f"{c.slower} {more} {c}."
    if c.decided:
        return f"{c.slower} costs no more {METRIC_NAMES[c.metric]} than {c.faster} at {at_all}."
    if c.seq_len_hi is not None:
        return f"{c.slower} {more} from n = {c.seq_len_hi:.0f} on at the latest; below, the intervals overlap."
    if c.seq_len_lo:
        return f"Whether {c.slower} {more} above n = {c.seq_len_lo:.0f} is undecided: the intervals overlap."
    return f"Whether {c.slower} {more} is undecided: the intervals overlap at {at_all}."


SCALING_EXPONENT = (
    "slope: d log cost / d log n, by the fitted law, at the smallest n at which it holds → at the largest n"
)

# The most pairs to report in which one layer may overtake the other.
_MOST_PAIRS = 6

_Laws = Mapping[tuple[str, Any, str], FittedLaw]


@dataclass(frozen=True)
class CostRow:
    """One layer's costs as text, each empty if it is missing. Without a time, `time` holds the reason."""

    line: CaseResult
    time: str
    interval: str
    memory: str
    time_slope: str
    memory_slope: str


@dataclass(frozen=True)
class Answer:
    """The answer for one setting: costs in its fullest panel at the largest n, fastest first, and sentences.

    The sentences name the fastest layer, and which layer overtakes which.
    """

    setting: PanelSetting
    panel: Panel
    n: int
    rows: tuple[CostRow, ...]
    sentences: tuple[str, ...]

    @property
    def where(self) -> str:
        """The size at which the rows were measured."""
        return f"n = {self.n}, d = {self.panel.d_model}, h = {self.panel.num_heads}"


def answers(lines: Sequence[CaseResult], findings: Analysis) -> list[Answer]:
    """An answer for every setting that has a timed case. `findings` must be those of `lines`."""
    placed = lines_by_facet(findings.crossovers, layers_without_heads(lines))
    laws = {(law.series.impl, law.series.setting, law.series.metric): law for law in findings.laws}
    found = []
    for setting in panel_settings(lines):
        panel = fullest_setting(setting.panels)
        if any(line.time_s is not None for line in panel.lines):
            n = max(line.seq_len for line in panel.lines if line.time_s is not None)
            crossing = [c for place in facets(setting, panel) for c in placed.get(place, ())]
            said = (*_fastest(panel, n), *_overtaking(panel, crossing))
            found.append(Answer(setting, panel, n, _rows(panel, n, laws), said))
    return found


def fullest_setting(panels: Sequence[Panel]) -> Panel:
    """The panel with the most timed cases; among equals the widest, then the one with the most heads."""
    return max(
        panels, key=lambda panel: (sum(line.time_s is not None for line in panel.lines), panel.d_model, panel.num_heads)
    )


def interval_text(line: CaseResult) -> str:
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
            formatting.seconds(line.time_s) if line.time_s is not None else _untimed(line),
            interval_text(line),
            _memory(line),
            _slopes(panel, line, laws.get((line.impl, setting_of(line), "time"))),
            _slopes(panel, line, laws.get((line.impl, setting_of(line), "memory")))
            or ("unknown" if line.allocates_outside_torch else ""),
        )
        for line in sorted(at_n, key=lambda line: line.time_s if line.time_s is not None else float("inf"))
    )


def _untimed(line: CaseResult) -> str:
    return "not timed" if line.status == "ok" else line.status


def _memory(line: CaseResult) -> str:
    """The peak memory. If torch traced only a part of it: that part, and the resident memory that the kernel saw."""
    if line.peak_bytes is not None:
        return formatting.size(line.peak_bytes)
    if line.peak_traced_bytes is None:
        return ""
    resident = f", {formatting.size(line.peak_resident_bytes)} resident" if line.peak_resident_bytes is not None else ""
    return f"≥ {formatting.size(line.peak_traced_bytes)} traced{resident}"


def _slopes(panel: Panel, line: CaseResult, fitted: FittedLaw | None) -> str:
    """The scaling exponents at the smallest measured n at which the law holds, and at the line's own n."""
    if fitted is None:
        return ""
    begins = max((b.n for b in fitted.law.breaks), default=0.0)
    smallest = min((one.seq_len for one in panel.of(line.impl) if one.seq_len >= begins), default=line.seq_len)
    ends = [
        exponent_of(fitted.law, "n", n, line.d_model, line.num_heads, line.batch_size) for n in (smallest, line.seq_len)
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


def _overlap(faster: CaseResult, slower: CaseResult) -> bool:
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
        return [crossover_sentence(c) for c in pairs]
    left = len(pairs) - _MOST_PAIRS
    more = f"and {left} more pair{'s' if left > 1 else ''}: crossovers.csv"
    return [*map(crossover_sentence, surest_crossover(pairs)[:_MOST_PAIRS]), more]
