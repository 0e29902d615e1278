"""The data of the page's charts, one record for each panel, and the axes that select a panel.

Measured values come as numbers, for the chart, beside the text that a reader sees.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import formatting
from harness.analysis.analyse import Analysis
from harness.analysis.crossovers import Crossover, layers_without_heads
from harness.analysis.roofline import Roof, RoofPoint
from harness.report.facets import (
    SETTING_AXES,
    Facet,
    Panel,
    PanelSetting,
    facets,
    lines_by_facet,
    looks_of,
    panel_settings,
    points_by_facet,
    roof_of_facet,
)
from harness.report.text.costs import crossing_sentences, crossover_sentence, fullest_setting
from harness.report.text.quality import expected_cost, unsupported_layers
from harness.results.table import CaseResult

# The axes of charts: ranges, and round ticks with their units.

# The most measured n that ticks name. Of more, every k-th is named, and always the largest.
_MOST_SIZES = 8


def size_axis(values: Collection[int]) -> dict[str, Any]:
    """A logarithmic axis that names measured n only: `{"range": [lo, hi], "ticks": [[n, text]]}`."""
    named = sorted(set(values))
    step = -(-len(named) // _MOST_SIZES)
    room = 1.25 if len(named) > 1 else 2.0
    return {
        "range": [named[0] / room, named[-1] * room],
        "ticks": [[n, str(n)] for n in named[::-1][::step][::-1]],
    }


def seconds_axis(values: Collection[float]) -> dict[str, Any]:
    """A logarithmic axis of times that contains all `values`."""
    return _decades(values, formatting.seconds)


def ratio_axis(values: Collection[float], text: Callable[[float], str]) -> dict[str, Any]:
    """A logarithmic axis with decimal ticks for any other quantity."""
    return _decades(values, text)


def bytes_axis(values: Collection[float]) -> dict[str, Any]:
    """A logarithmic axis of bytes, with ticks at powers of 2, 4 or 16."""
    lo, hi = min(values) / 1.6, max(values) * 1.6
    span = math.log2(hi / lo)
    step = 1 if span < 5 else 2 if span < 18 else 4
    first, last = math.floor(math.log2(lo) / step), math.ceil(math.log2(hi) / step)
    ticks = [2.0 ** (step * i) for i in range(first, last + 1)]
    return _axis(lo, hi, ticks, formatting.size)


def _decades(values: Collection[float], text: Callable[[float], str]) -> dict[str, Any]:
    lo, hi = min(values) / 1.6, max(values) * 1.6
    span = math.log10(hi / lo)
    steps = (1, 2, 5) if span < 1.8 else (1, 3) if span < 4.5 else (1,)
    ladder = [
        float(f"{m}e{e}") for e in range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1) for m in steps
    ]
    return _axis(lo, hi, ladder, text)


def _axis(lo: float, hi: float, ladder: list[float], text: Callable[[float], str]) -> dict[str, Any]:
    if sum(lo <= value <= hi for value in ladder) < 2:
        # The values are close together: extend the range to the next tick on either side.
        lo = max((value for value in ladder if value <= lo), default=lo)
        hi = min((value for value in ladder if value >= hi), default=hi)
    return {"range": [lo, hi], "ticks": [[v, formatting.round_text(text(v))] for v in ladder if lo <= v <= hi]}


@dataclass(frozen=True)
class Cost:
    """Functions for one cost: a line's value, its interval and its text (the first two may be None), and the axis."""

    value: Callable[[CaseResult], float | None]
    band: Callable[[CaseResult], tuple[float, float] | None]
    text: Callable[[CaseResult], str]
    frame: Callable[[list[float]], dict[str, Any]]


def time_band(line: CaseResult) -> tuple[float, float] | None:
    """The interval of a time; None if the time has none, as after a single trial."""
    if line.time_lo_s is None or line.time_hi_s is None:
        return None
    return line.time_lo_s, line.time_hi_s


def _time_text(line: CaseResult) -> str:
    band = time_band(line)
    between = f" ({formatting.seconds(band[0])} to {formatting.seconds(band[1])})" if band else " (one trial)"
    return formatting.seconds(line.time_s or 0.0) + between


TIME = Cost(lambda line: line.time_s, time_band, _time_text, seconds_axis)
MEMORY = Cost(
    lambda line: line.peak_bytes or None, lambda _: None, lambda line: formatting.size(line.peak_bytes or 0), bytes_axis
)


def cost_frame(panels: Sequence[Panel], cost: Cost) -> dict[str, Any] | None:
    """The y axis shared by all panels, so that they can be compared; None if no panel has a value."""
    values = [value for panel in panels for line in panel.lines if (value := cost.value(line)) is not None]
    return cost.frame(values) if values else None


def curve_chart(panel: Panel, cost: Cost) -> dict[str, Any]:
    """`{"curves": [{impl, n, value, lo, hi, text}], "failed": [{impl, n, value, status, text}]}`, by ascending n.

    `lo` and `hi` are None for a case without an interval. The `value` of a failed case is where it would have been, or
    None if nothing else of its layer was measured. The failed cases leave out layers whose cases are all unsupported:
    the chart would say nothing new about them.
    """
    found: dict[str, list[dict[str, Any]]] = {"curves": [], "failed": []}
    gone = unsupported_layers(panel.lines)
    for impl in panel.impls():
        known = [(line, value) for line in panel.of(impl) if (value := cost.value(line)) is not None]
        if known:
            bands = [cost.band(line) or (None, None) for line, _ in known]
            found["curves"].append(
                {
                    "impl": impl,
                    "n": [line.seq_len for line, _ in known],
                    "value": [value for _, value in known],
                    "lo": [lo for lo, _ in bands],
                    "hi": [hi for _, hi in bands],
                    "text": [cost.text(line) for line, _ in known],
                }
            )
        places = [(line.seq_len, value) for line, value in known]
        found["failed"] += [
            {
                "impl": impl,
                "n": line.seq_len,
                "value": expected_cost(line.seq_len, places),
                "status": line.status,
                "text": f"{line.status}: {line.reason}" if line.reason else line.status,
            }
            for line in panel.of(impl)
            if line.status != "ok" and cost.value(line) is None and impl not in gone
        ]
    return found


def roofline_chart(panel: Panel, roof: Roof | None, points: Sequence[RoofPoint]) -> dict[str, Any] | None:
    """`{"x", "y", "roof", "curves": [{impl, n, x, y, lo, hi, text}]}`; None if nothing can be drawn.

    `x` and `y` are axes, of FLOPs a byte and of FLOP/s. The entry `roof` holds the roof's corners (`x`, `y`), their
    interval (`lo`, `hi`) and two labels (`compute`, `memory`).
    """
    if roof is None or not points:
        return None
    reach = [point.flops_per_byte for point in points]
    ridge = roof.peak_flops_per_s / roof.bandwidth_bytes_per_s
    x = ratio_axis([min(*reach, ridge) / 1.5, max(*reach, ridge)], formatting.three)
    lo, hi = x["range"]
    corners = [lo, ridge, hi]
    rates = [point.flops_per_s for point in points]
    y = ratio_axis([*rates, roof.peak_hi], formatting.flops_rate)
    return {
        "x": x,
        "y": y,
        "roof": {
            "x": corners,
            "y": [roof.at(at) for at in corners],
            "lo": [min(roof.peak_lo, at * roof.bandwidth_lo) for at in corners],
            "hi": [min(roof.peak_hi, at * roof.bandwidth_hi) for at in corners],
            "compute": f"peak {formatting.flops_rate(roof.peak_flops_per_s)}",
            "memory": f"memory {roof.bandwidth_bytes_per_s / 1e9:.3g} GB/s",
        },
        "curves": [_curve(impl, points) for impl in panel.impls() if any(p.line.impl == impl for p in points)],
    }


def _curve(impl: str, points: Sequence[RoofPoint]) -> dict[str, Any]:
    own = sorted((point for point in points if point.line.impl == impl), key=lambda point: point.line.seq_len)
    return {
        "impl": impl,
        "n": [point.line.seq_len for point in own],
        "x": [point.flops_per_byte for point in own],
        "y": [point.flops_per_s for point in own],
        "lo": [_bounded(point.flops_per_s_lo) for point in own],
        "hi": [_bounded(point.flops_per_s_hi) for point in own],
        "text": [roofline_text(point) for point in own],
    }


def _bounded(end: float) -> float | None:
    """An end of an interval; None if it is open, as after a single trial."""
    return end if 0 < end < math.inf else None


def roofline_text(point: RoofPoint) -> str:
    """`n = 512: 94.2 GFLOP/s at 44.1 FLOPs a byte, 46 % of what compute allows there (41 % to 50 %)`."""
    return (
        f"n = {point.line.seq_len}: {formatting.flops_rate(point.flops_per_s)} at "
        f"{formatting.three(point.flops_per_byte)} FLOPs a byte, "
        f"{formatting.share(point.share)} of what {point.bound} allows there{_between(point)}"
    )


def _between(point: RoofPoint) -> str:
    if point.share_lo <= 0 or point.share_hi == math.inf:
        return ""
    return f" ({formatting.share(point.share_lo)} to {formatting.share(point.share_hi)})"


def crossover_chart(panel: Panel, found: Iterable[Crossover]) -> dict[str, Any] | None:
    """`{"x", "rows": [{slower, faster, metric, n, lo, hi, text, sentence}]}`; None if nothing crosses or may cross.

    The `n` of an undecided crossover is None, and so is an unknown end of its interval.
    """
    rows = [
        {
            "slower": c.slower,
            "faster": c.faster,
            "metric": c.metric,
            "n": c.seq_len,
            "lo": c.seq_len_lo or None,
            "hi": c.seq_len_hi,
            "text": str(c),
            "sentence": crossover_sentence(c),
        }
        for c in crossing_sentences(found)
    ]
    return {"x": size_axis([line.seq_len for line in panel.lines]), "rows": rows} if rows else None


# Matplotlib's marker -> (plotly's name, the same shape as an SVG path within a circle of radius 5).
_SHAPES = {
    "o": ("circle", "M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z"),
    "s": ("square", "M-4.4-4.4H4.4V4.4H-4.4Z"),
    "D": ("diamond", "M0-5.6L5.6 0L0 5.6L-5.6 0Z"),
    "^": ("triangle-up", "M0-5.4L5.2 3.9H-5.2Z"),
    "v": ("triangle-down", "M0 5.4L5.2-3.9H-5.2Z"),
    "P": ("cross", "M-1.9-5.2H1.9V-1.9H5.2V1.9H1.9V5.2H-1.9V1.9H-5.2V-1.9H-1.9Z"),
    "*": ("star", "M0-5.8L1.4-1.9L5.5-1.8L2.2.8L3.4 4.7L0 2.3L-3.4 4.7L-2.2.8L-5.5-1.8L-1.4-1.9Z"),
    "X": ("x", "M0-2.6L2.6-5.2L5.2-2.6L2.6 0L5.2 2.6L2.6 5.2L0 2.6L-2.6 5.2L-5.2 2.6L-2.6 0L-5.2-2.6L-2.6-5.2Z"),
    "p": ("pentagon", "M0-5.4L5.1-1.7L3.2 4.4H-3.2L-5.1-1.7Z"),
    "h": ("hexagon", "M0-5.4L4.7-2.7V2.7L0 5.4L-4.7 2.7V-2.7Z"),
}

# Pixels for each point of a dash's length, for a line as thick as the page's.
_PIXELS = 2


def marker_symbols(impls: Iterable[str]) -> dict[str, dict[str, str]]:
    """`{impl: {colour, symbol, path, dash}}` for each of `impls`, in the order of the plots.

    These are the colour, marker and dash of the static plots, in the terms of the page's charts.
    """
    wanted = set(impls)
    found = {}
    for impl, look in looks_of(wanted).items():
        if impl in wanted:
            symbol, path = _SHAPES[look.marker]
            dash = ",".join(f"{length * _PIXELS:g}px" for length in look.dash) or "solid"
            found[impl] = {"colour": look.colour, "symbol": symbol, "path": path, "dash": dash}
    return found


# Axes that select a panel, with their names on the page.
AXES = {
    "mode": "mode",
    "d_model": "width d",
    "num_heads": "heads h",
    "batch_size": "batch b",
    "dtype": "dtype",
    "device": "device",
    "threads": "threads",
    "allocator": "allocator",
    "mask": "mask",
    "padding_fraction": "padding",
    "kv_len": "source m",
}


@dataclass(frozen=True)
class _Placed:
    """Findings by the facet they belong to."""

    roofs: Sequence[Roof]
    points: dict[Facet, list[RoofPoint]]
    crossovers: dict[Facet, list[Crossover]]


def chart_data(
    lines: Sequence[CaseResult], findings: Analysis, grid: Mapping[str, Sequence[Any]] | None = None
) -> dict[str, Any]:
    """`{"looks": {impl: look}, "axes": [{name, label, values}], "panels": [...], "first": index}`.

    Each panel has:

    - `at`: its value on every axis
    - `title`
    - `n`: the axis of n
    - `time`, `memory`: the curves with their y axis, or None
    - `roofline`, `crossovers`: the chart's data, or None

    `first` is the panel to open with. `grid` gives the order of an axis's values where the order matters.
    """
    found = panel_settings(lines)
    without = layers_without_heads(lines)
    placed = _Placed(
        findings.roofs, points_by_facet(findings.roof_points, without), lines_by_facet(findings.crossovers, without)
    )
    panels = [_record(setting, panel, placed) for setting in found for panel in _with_frames(setting)]
    return {
        "looks": marker_symbols({line.impl for line in lines}),
        "axes": [
            {"name": name, "label": label, "values": sorted({panel["at"][name] for panel in panels})}
            for name, label in AXES.items()
        ],
        "panels": panels,
        "first": _first(found, panels, grid or {}),
    }


def _first(found: Sequence[PanelSetting], panels: Sequence[dict[str, Any]], grid: Mapping[str, Sequence[Any]]) -> int:
    """The index of the panel to open with: the fullest panel of the setting with the most timed cases.

    Among equal settings, one with a roofline comes first, then the first of the grid.
    """

    def place(setting: PanelSetting) -> list[int]:
        orders = [(list(grid.get(axis, ())), value) for axis, value in zip(SETTING_AXES, setting.values, strict=True)]
        return [-order.index(value) if value in order else 0 for order, value in orders]

    best, chosen, start = None, 0, 0
    for setting in found:
        of_it = panels[start : start + len(setting.panels)]
        timed = sum(line.time_s is not None for panel in setting.panels for line in panel.lines)
        rank = (timed, any(panel["roofline"] for panel in of_it), place(setting))
        if best is None or rank > best:
            best, chosen = rank, start + setting.panels.index(fullest_setting(setting.panels))
        start += len(setting.panels)
    return chosen


@dataclass(frozen=True)
class _Framed:
    panel: Panel
    time: dict[str, Any] | None
    memory: dict[str, Any] | None


def _with_frames(setting: PanelSetting) -> list[_Framed]:
    """Each panel with the y axes that all panels of the setting share."""
    time, memory = cost_frame(setting.panels, TIME), cost_frame(setting.panels, MEMORY)
    return [_Framed(panel, time, memory) for panel in setting.panels]


def _record(setting: PanelSetting, framed: _Framed, placed: _Placed) -> dict[str, Any]:
    panel = framed.panel
    at = dict(zip(SETTING_AXES, setting.values, strict=True))
    own = facets(setting, panel)
    points = [point for place in own for point in placed.points.get(place, ())]
    crossing = [c for place in own for c in placed.crossovers.get(place, ())]
    return {
        "at": {**at, "d_model": panel.d_model, "num_heads": panel.num_heads},
        "title": f"d = {panel.d_model}, h = {panel.num_heads}; {setting.title}",
        "n": size_axis([line.seq_len for line in panel.lines]),
        "time": {"y": framed.time, **curve_chart(panel, TIME)} if framed.time else None,
        "memory": {"y": framed.memory, **curve_chart(panel, MEMORY)} if framed.memory else None,
        "roofline": roofline_chart(panel, roof_of_facet(placed.roofs, setting), points),
        "crossovers": crossover_chart(panel, crossing),
    }
