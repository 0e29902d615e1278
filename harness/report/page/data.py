"""The numbers of all charts, one record for each panel, and the axes that select a panel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.findings.crossovers import Crossover, headless
from harness.findings.findings import Findings
from harness.findings.roofline import Roof, RoofPoint
from harness.report.page import frames
from harness.report.page.crossovers import crossovers
from harness.report.page.curves import MEMORY, TIME, curves, frame
from harness.report.page.marks import marks
from harness.report.page.roofline import roofline
from harness.report.panels import SETTING_AXES, Panel, Setting, settings
from harness.report.places import Place, by_place, places, points_by_place, roof_of
from harness.report.said.costs import fullest
from harness.summary import Line

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
    "real_share": "real tokens",
    "source_len": "source m",
}


@dataclass(frozen=True)
class _Placed:
    """Findings by the place they belong to."""

    roofs: Sequence[Roof]
    points: dict[Place, list[RoofPoint]]
    crossovers: dict[Place, list[Crossover]]


def chart_data(
    lines: Sequence[Line], findings: Findings, grid: Mapping[str, Sequence[Any]] | None = None
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
    found = settings(lines)
    without = headless(lines)
    placed = _Placed(
        findings.roofs, points_by_place(findings.roof_points, without), by_place(findings.crossovers, without)
    )
    panels = [_record(setting, panel, placed) for setting in found for panel in _with_frames(setting)]
    return {
        "looks": marks({line.impl for line in lines}),
        "axes": [
            {"name": name, "label": label, "values": sorted({panel["at"][name] for panel in panels})}
            for name, label in AXES.items()
        ],
        "panels": panels,
        "first": _first(found, panels, grid or {}),
    }


def _first(found: Sequence[Setting], panels: Sequence[dict[str, Any]], grid: Mapping[str, Sequence[Any]]) -> int:
    """The index of the panel to open with: the fullest panel of the setting with the most timed cases.

    Among equal settings, one with a roofline comes first, then the first of the grid.
    """

    def place(setting: Setting) -> list[int]:
        orders = [(list(grid.get(axis, ())), value) for axis, value in zip(SETTING_AXES, setting.values, strict=True)]
        return [-order.index(value) if value in order else 0 for order, value in orders]

    best, chosen, start = None, 0, 0
    for setting in found:
        of_it = panels[start : start + len(setting.panels)]
        timed = sum(line.time_s is not None for panel in setting.panels for line in panel.lines)
        rank = (timed, any(panel["roofline"] for panel in of_it), place(setting))
        if best is None or rank > best:
            best, chosen = rank, start + setting.panels.index(fullest(setting.panels))
        start += len(setting.panels)
    return chosen


@dataclass(frozen=True)
class _Framed:
    panel: Panel
    time: dict[str, Any] | None
    memory: dict[str, Any] | None


def _with_frames(setting: Setting) -> list[_Framed]:
    """Each panel with the y axes that all panels of the setting share."""
    time, memory = frame(setting.panels, TIME), frame(setting.panels, MEMORY)
    return [_Framed(panel, time, memory) for panel in setting.panels]


def _record(setting: Setting, framed: _Framed, placed: _Placed) -> dict[str, Any]:
    panel = framed.panel
    at = dict(zip(SETTING_AXES, setting.values, strict=True))
    own = places(setting, panel)
    points = [point for place in own for point in placed.points.get(place, ())]
    crossing = [c for place in own for c in placed.crossovers.get(place, ())]
    return {
        "at": {**at, "d_model": panel.d_model, "num_heads": panel.num_heads},
        "title": f"d = {panel.d_model}, h = {panel.num_heads}; {setting.title}",
        "n": frames.sizes([line.seq_len for line in panel.lines]),
        "time": {"y": framed.time, **curves(panel, TIME)} if framed.time else None,
        "memory": {"y": framed.memory, **curves(panel, MEMORY)} if framed.memory else None,
        "roofline": roofline(panel, roof_of(placed.roofs, setting), points),
        "crossovers": crossovers(panel, crossing),
    }
