"""The list of a run's plots: each is drawn for every setting and saved to a file of its name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.analysis.roofline import roof_points, roofs
from harness.report.figure_panels import MEMORY, MOST_SHOWN, TIME, panel_settings, readable_setting
from harness.report.plots import overviews, style
from harness.report.plots.curves import curves
from harness.results.columns import CaseResult


def draw(directory: Path, lines: Sequence[CaseResult], machine: Mapping[str, Any]) -> None:
    """Write a set of plots for each setting to `directory`. Raises OSError if they cannot be written."""
    directory.mkdir(exist_ok=True)
    known = roofs(machine)
    points = roof_points(lines, known)
    for whole in panel_settings(lines):
        setting = readable_setting(whole)
        figures = {
            "ladder": overviews.ladder(whole),
            "speedup": overviews.speedup(setting),
            "roofline": overviews.roofline(setting, known, points),
            "time": curves(whole, TIME, MOST_SHOWN),
            "memory": curves(whole, MEMORY, MOST_SHOWN),
        }
        for name, figure in figures.items():
            if figure is not None:
                style.save(figure, directory / (f"{name}_{setting.name}" if setting.name else name))
