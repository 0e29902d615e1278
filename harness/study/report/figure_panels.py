"""The panels of a run's figures and what is drawn in them, alike in the static plots and on the page.

A figure shows one setting, and each of its panels one (d, h). A `Chart` describes what one pair of axes shows: axes
with round ticks, a curve for each layer, failed cases, and grey guides. `plots` draws it as a file, and the scripts of
`html` draw it on the page.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from harness.core.model import formatting, own_axes
from harness.core.model.formatting import NumberText
from harness.core.model.sweep_axes import SETTINGS, setting_text
from harness.core.results.columns import CaseResult
from harness.study.laws.crossovers import Crossover, compared_at, layers_without_heads
from harness.study.laws.roofline import Roof, RoofPoint

from . import chart as charts
from .chart import Axis, Chart, Curve, FailedCase, Looks, Point, size_axis, too_wide
from .document import grouped

# The lines of a run, or some of them.
Lines = Sequence[CaseResult]
SETTING_AXES = ("batch_size", *SETTINGS)
# The most widths, and the most numbers of heads, that one plot has room for.
MOST_SHOWN = 4
# With more layers than this a figure is crowded and shows less of each.
MANY = 10


@dataclass(frozen=True)
class Panel:
    """Lines to compare with each other: same setting, width and heads, different layer and n, in ascending order."""

    d_model: int
    num_heads: int
    lines: tuple[CaseResult, ...]

    def impls(self) -> list[str]:
        """The layers present."""
        return list(dict.fromkeys(line.impl for line in self.lines))

    @property
    def timed(self) -> int:
        """The number of timed cases."""
        return sum(line.time_s is not None for line in self.lines)

    def families(self) -> dict[str, str]:
        """The family of each layer."""
        return {line.impl: line.family for line in self.lines}

    def of(self, impl: str) -> list[CaseResult]:
        """The lines of one layer, in ascending n."""
        return [line for line in self.lines if line.impl == impl]


@dataclass(frozen=True)
class PanelSetting:
    """The value that all cases of a figure share on each of `SETTING_AXES`, and the panels of the figure.

    The name has only those values in which the run's settings differ. The looks are those of all layers of the run.
    """

    at: Mapping[str, Any]
    name: str
    title: str
    panels: tuple[Panel, ...]
    looks: Looks

    @property
    def timed(self) -> int:
        """The number of timed cases in all panels."""
        return sum(panel.timed for panel in self.panels)


def panel_settings(lines: Lines, looks: Looks | None = None) -> list[PanelSetting]:
    """Group the run's lines by setting and divide each setting into panels. A layer without an own axis is in each.

    `looks` are those of a whole run, of which these lines are a part; without them, these lines are the run.
    """
    looks = charts.looks_of_run(lines) if looks is None else looks
    without = layers_without_heads(lines)
    groups: dict[tuple[Any, ...], list[CaseResult]] = {}
    for line, options in compared_at(lines):
        at = {axis: getattr(line, axis) for axis in SETTING_AXES} | {"options": options}
        groups.setdefault(tuple(at.values()), []).append(line)
    varying = [axis for axis, seen in zip(SETTING_AXES, zip(*groups, strict=True), strict=False) if len({*seen}) > 1]
    settings = []
    for values, members in sorted(groups.items(), key=lambda item: list(map(in_order, item[0]))):
        at = dict(zip(SETTING_AXES, values, strict=True))
        # The name of its axis precedes a number: `train_threads2`.
        prefixes = {axis: axis if isinstance(at[axis], int | float) else "" for axis in varying}
        name = file_name("_".join(f"{prefix}{at[axis]}" for axis, prefix in prefixes.items()))
        settings.append(PanelSetting(at, name, setting_text(at), tuple(_panels(members, without)), looks))
    return settings


def file_name(text: str) -> str:
    """The text, safe as the name of a file: an environment or a layer may be a path."""
    return re.sub(r"[^\w.+-]", "-", text)


def in_order(value: Any) -> Any:
    """A sort key by which `window=64` comes before `window=128`, and 0.25 before 0.5."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", value) if isinstance(value, str) else []
    return [float(part) if at % 2 else part for at, part in enumerate(parts)] or value


def _panels(lines: Lines, without: Collection[str]) -> Iterator[Panel]:
    """A panel for each (d, h). A layer without heads is in every panel of its d, beside the layers with heads."""
    with_heads = [line for line in lines if line.impl not in without] or lines
    for d, of_width in sorted(grouped(lines, attrgetter("d_model")).items()):
        for h in sorted({line.num_heads for line in with_heads if line.d_model == d} or {1}):
            # `replace`: each panel shows the lines without heads as if measured at its h.
            at_h = (replace(line, num_heads=h) if line.impl in without else line for line in of_width)
            members = {line for line in at_h if line.num_heads == h}
            yield Panel(d, h, tuple(sorted(members, key=attrgetter("impl", "seq_len"))))


@dataclass(frozen=True)
class OwnAxisPanel:
    """The timed lines of one layer that differ in n and along `axis`, an own axis.

    The title has all other values. `beside` are the lines of layers without the axis that are otherwise alike.
    """

    axis: str
    impl: str
    title: str
    lines: tuple[CaseResult, ...]
    beside: tuple[CaseResult, ...]

    def value(self, line: CaseResult) -> float:
        """The value of a line along the axis."""
        return own_axes.sizes_by_name(line.own_axes, line.options)[self.axis]


def own_axis_panels(lines: Lines) -> list[OwnAxisPanel]:
    """A panel for each own axis of a layer that varies, and for each setting and size beside n."""
    timed, headless = [line for line in lines if line.time_s is not None], layers_without_heads(lines)
    panels = []
    for axis in own_axes.varied_axes(timed):
        of_axis = (line for line in timed if axis in own_axes.axes_of_text(line.own_axes))
        for (impl, where, h, other_sizes), members in grouped(of_axis, partial(_beside, axis=axis)).items():
            series, batch_size, d_model = where
            sizes = (f"d = {d_model}", f"h = {h}", *(f"{name} = {value:g}" for name, value in other_sizes))
            at = setting_text({"batch_size": batch_size, **series.as_dict()})
            beside = (
                line
                for line in timed
                if (line.options, _where(line)) == (series.options, where)
                and line.impl != impl
                and (line.num_heads == h or line.impl in headless)
            )
            panels.append(OwnAxisPanel(axis, impl, ", ".join((*sizes, at)), tuple(members), tuple(beside)))
    return [panel for panel in panels if len({*map(panel.value, panel.lines)}) > 1]


def drawn_settings(settings: Iterable[PanelSetting]) -> list[PanelSetting]:
    """The settings to draw: of those that differ along own axes alone, the last with the most timed cases."""
    cases_of = attrgetter("impl", "batch_size", "series")
    apart = grouped(
        settings, lambda setting: frozenset(cases_of(line) for panel in setting.panels for line in panel.lines)
    )
    return [max(reversed(alike), key=attrgetter("timed")) for alike in apart.values()]


_where = attrgetter("series", "batch_size", "d_model")


def _beside(line: CaseResult, axis: str) -> tuple[Any, ...]:
    """The layer, the setting with b and d, h, and the sizes of a line along other own axes than this one."""
    sizes = own_axes.sizes_by_name(line.own_axes, line.options)
    other_sizes = tuple(sorted((name, value) for name, value in sizes.items() if name != axis))
    return line.impl, _where(line), line.num_heads, other_sizes


def readable_setting(setting: PanelSetting, most: int = MOST_SHOWN) -> PanelSetting:
    """Reduce a setting to what one plot can show: at most `most` widths and `most` numbers of heads.

    The first and the last of each stay. The title then gives the number of panels kept and of all panels. The page and
    the tables show every panel.
    """
    widths = evenly_spread({panel.d_model for panel in setting.panels}, most)
    heads = evenly_spread({panel.num_heads for panel in setting.panels}, most)
    kept = tuple(panel for panel in setting.panels if panel.d_model in widths and panel.num_heads in heads)
    if len(kept) == len(setting.panels):
        return setting
    return replace(setting, title=f"{setting.title} ({len(kept)} of {len(setting.panels)} panels)", panels=kept)


def evenly_spread(values: Collection[int], most: int) -> list[int]:
    """At most `most` of the values, evenly spaced from the smallest to the largest."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    return [ordered[round(i * (len(ordered) - 1) / (most - 1))] for i in range(most)]


def fullest_panel(panels: Sequence[Panel]) -> Panel:
    """The panel with the most timed cases; among equals the widest, then the one with the most heads."""
    return max(panels, key=attrgetter("timed", "d_model", "num_heads"))


# The place of a finding: a setting's values, a width, and a number of heads. A finding about layers without heads has
# None as its number of heads, and belongs to every panel of its width.
Facet = tuple[tuple[Any, ...], int, int | None]
_Finding = TypeVar("_Finding", Crossover, RoofPoint)


def by_facet(findings: Iterable[_Finding], without_heads: Collection[str]) -> dict[Facet, list[_Finding]]:
    """Group crossovers, or points of a roofline, by facet. `without_heads` is a result of `layers_without_heads`."""

    def facet(finding: _Finding) -> Facet:
        if isinstance(finding, RoofPoint):
            at: CaseResult | Crossover = finding.line
            impls = {finding.line.impl}
        else:
            at, impls = finding, {finding.slower, finding.faster}
        heads = None if impls.issubset(without_heads) else at.num_heads
        return (at.batch_size, *finding.setting.as_dict().values()), at.d_model, heads

    return grouped(findings, facet)


def of_panel(findings: Mapping[Facet, list[_Finding]], setting: PanelSetting, panel: Panel) -> list[_Finding]:
    """Those of the findings `by_facet` that belong to a panel, also those of layers without its own axes."""
    plain = {**setting.at, "options": panel.lines[0].series.options}
    places = ((tuple(at.values()), panel.d_model, h) for at in (setting.at, plain) for h in (panel.num_heads, None))
    return [finding for place in dict.fromkeys(places) for finding in findings.get(place, ())]


def roof_of_setting(roofs: Iterable[Roof], setting: PanelSetting) -> Roof | None:
    """The roof of a setting, or None. A GPU's roof does not depend on how many CPU threads feed it."""
    alike = (roof for roof in roofs if (roof.dtype, roof.device) == (setting.at["dtype"], setting.at["device"]))
    return next((roof for roof in alike if roof.device != "cpu" or roof.threads == setting.at["threads"]), None)


@dataclass(frozen=True)
class Cost:
    """A quantity drawn against n: its name, and functions of a line for its value and the ends of its interval.

    `text` writes a value with its unit, and `ladders` are the ticks of its axis.
    """

    label: str
    value: Callable[[CaseResult], float | None]
    text: NumberText
    ladders: charts.Ladders = charts.DECIMAL
    ends: Callable[[CaseResult], charts.Ends] = lambda line: (None, None)

    def axis(self, values: Collection[float], title: str = "", room: float = charts.ROOM) -> Axis:
        """The axis for some values."""
        return charts.value_axis(values, self.text, title, room, self.ladders)

    def axis_of(self, panels: Iterable[Panel], room: float = charts.ROOM) -> Axis | None:
        """The axis shared by all panels, so that they can be compared; None if no panel has a value.

        It fits the values, not the intervals: a very wide interval must not squeeze the values.
        """
        values = [value for panel in panels for value in map(self.value, panel.lines) if value is not None]
        return self.axis(values, room=room) if values else None


TIME = Cost("time per call", attrgetter("time_s"), formatting.seconds, ends=attrgetter("time_lo_s", "time_hi_s"))
MEMORY = Cost("peak memory per call", lambda line: line.peak_bytes or None, formatting.size, charts.BINARY)
# What layers are compared by: no suspect times, and others as the cost model knows them.
_UNKNOWN = None, None, None
COMPARED = Cost(
    "time",
    lambda line: (line.best_known_time or _UNKNOWN)[0],
    formatting.seconds,
    ends=lambda line: (line.best_known_time or _UNKNOWN)[1:],
)
DEPTH = Cost("sequential depth", lambda line: line.depth or None, formatting.count)


def unsupported_layers(lines: Iterable[CaseResult]) -> set[str]:
    """Names of the layers that a run could not measure at all: all of their cases are unsupported.

    Either their package or device is missing, or they support no case of the run.
    """
    statuses = grouped(lines, attrgetter("impl"))
    return {impl for impl, alike in statuses.items() if {line.status for line in alike} == {"unsupported"}}


def cost_chart(panel: Panel, cost: Cost, axis: Axis | None) -> Chart | None:
    """A cost against n, with the failed cases; None without an `axis`, the result of `axis_of`.

    Layers whose cases are all unsupported are left out: the chart would say nothing new about them.
    """
    if axis is None:
        return None
    unsupported = unsupported_layers(panel.lines)
    failed = [case for case in failed_cases(panel, cost) if case.impl not in unsupported]
    sizes = size_axis(line.seq_len for line in panel.lines)
    return Chart(sizes, axis, cost_curves(panel, cost), failed=failed, title=cost.label.capitalize())


def cost_curves(panel: Panel, cost: Cost) -> list[Curve]:
    """The curve of each layer of a panel that has one."""
    measured = grouped((line for line in panel.lines if cost.value(line) is not None), attrgetter("impl"))
    return [curve_of(impl, lines, cost) for impl, lines in measured.items()]


def curve_of(
    name: str, lines: Iterable[CaseResult], cost: Cost, place: Callable[[CaseResult], Any] = attrgetter("seq_len")
) -> Curve:
    """The curve of lines that have a cost, in ascending order of their `place` on the axis."""
    points = []
    for line in lines:
        value, (lo, hi) = cost.value(line) or 0.0, cost.ends(line)
        text = cost.text(value)
        if lo is not None and hi is not None and hi < math.inf:
            text += f" ({cost.text(lo)} to {cost.text(hi)})"
        else:
            lo = hi = None
            text += " (one trial)" if cost is TIME else ""
        points.append(Point(place(line), value, lo, hi, too_wide(lo, hi), text, line.seq_len, line.host, line.probe_s))
    return Curve(name, points)


def failed_cases(panel: Panel, cost: Cost) -> list[FailedCase]:
    """The cases of a panel that failed and have no cost."""
    places_of = {curve.impl: curve.places for curve in cost_curves(panel, cost)}
    failed = []
    for line in panel.lines:
        if line.status != "ok" and cost.value(line) is None:
            value = expected_cost(line.seq_len, places_of.get(line.impl, ()))
            text = ": ".join(filter(None, (line.status, line.reason)))
            failed.append(FailedCase(line.impl, line.seq_len, value, line.status, text))
    return failed


def expected_cost(n: int, measured: Sequence[tuple[float, float]]) -> float | None:
    """Estimate what a failed case would have cost: a plot marks the case there.

    The estimate lies on the log-log line through the two measured (n, cost) nearest to `n`. A single measured cost is
    returned unchanged. Returns None if nothing was measured.
    """
    if len(measured) < 2:
        return measured[0][1] if measured else None
    (n0, y0), (n1, y1) = sorted(sorted(measured, key=lambda point: abs(math.log(point[0] / n)))[:2])
    return y1 * (n / n1) ** (math.log(y1 / y0) / math.log(n1 / n0))
