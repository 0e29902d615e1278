"""All static pictures of a run, as PNG and SVG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.findings.roofline import roof_points, roofs
from harness.report.panels import readable, settings
from harness.report.plots.curves import MEMORY, TIME, curves
from harness.report.plots.ladder import ladder
from harness.report.plots.roofline import roofline
from harness.report.plots.save import save
from harness.report.plots.speedup import speedup
from harness.summary import Line


def draw(directory: Path, lines: Sequence[Line], machine: Mapping[str, Any]) -> None:
    """Write them to `directory`, a set for each setting. Raises OSError where that cannot be."""
    directory.mkdir(exist_ok=True)
    known = roofs(machine)
    points = roof_points(lines, known)
    for whole in settings(lines):
        setting = readable(whole)
        end = f"_{setting.name}" if setting.name else ""
        if any(line.time_s is not None for panel in setting.panels for line in panel.lines):
            save(curves(setting, TIME), directory / f"time{end}")
        if any(line.peak_bytes for panel in setting.panels for line in panel.lines):
            save(curves(setting, MEMORY), directory / f"memory{end}")
        others = {
            "ladder": ladder(whole),
            "speedup": speedup(setting),
            "roofline": roofline(setting, known, points),
        }
        for name, figure in others.items():
            if figure is not None:
                save(figure, directory / f"{name}{end}")
