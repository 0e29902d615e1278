"""All static plots of a run, as PNG and SVG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from harness.analysis.roofline import roof_points, roofs
from harness.report.facets import PanelSetting, panel_settings, readable_setting
from harness.report.plots.cost_axes import MEMORY, TIME, Cost, is_crowded
from harness.report.plots.curves import curves
from harness.report.plots.ladder import ladder
from harness.report.plots.roofline import roofline
from harness.report.plots.speedup import speedup
from harness.report.plots.style import save
from harness.results.table import CaseResult


def draw(directory: Path, lines: Sequence[CaseResult], machine: Mapping[str, Any]) -> None:
    """Write a set of plots for each setting to `directory`. Raises OSError if they cannot be written."""
    directory.mkdir(exist_ok=True)
    known = roofs(machine)
    points = roof_points(lines, known)
    for whole in panel_settings(lines):
        setting = readable_setting(whole)
        end = f"_{setting.name}" if setting.name else ""
        if any(line.time_s is not None for panel in setting.panels for line in panel.lines):
            save(_curves(whole, TIME), directory / f"time{end}")
        if any(line.peak_bytes for panel in setting.panels for line in panel.lines):
            save(_curves(whole, MEMORY), directory / f"memory{end}")
        others = {
            "ladder": ladder(whole),
            "speedup": speedup(setting),
            "roofline": roofline(setting, known, points),
        }
        for name, figure in others.items():
            if figure is not None:
                save(figure, directory / f"{name}{end}")


def _curves(whole: PanelSetting, cost: Cost) -> Figure:
    """Draw the curves of one cost. A crowded setting is passed whole: `by_family` keeps fewer widths and heads."""
    return curves(whole if is_crowded(whole.panels, cost) else readable_setting(whole), cost)
