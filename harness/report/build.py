"""Rebuild a run's tables and plots from its rows alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from harness.config.schema import Precision
from harness.errors import UsageError
from harness.report.laws import fit_laws, laws_table
from harness.report.panels import settings
from harness.store import check_run, read_rows
from harness.summary import Line, summarise, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Report:
    """What was made of a run: its lines, and a notice for each row that could not be read."""

    lines: list[Line]
    notices: list[str]


def build(run: Path) -> Report:
    """Write `summary.csv`, `laws.csv` and `plots/`. Raises UsageError where `run` is no run or cannot be written."""
    check_run(run)
    rows, notices = read_rows(run)
    lines = summarise(rows, _precision(run))
    try:
        table(lines).to_csv(run / "summary.csv", index=False, float_format="%.6g")
        laws_table(fit_laws(lines)).to_csv(run / "laws.csv", index=False, float_format="%.4f")
        _plots(run / "plots", lines)
    except OSError as error:
        raise UsageError(f"{run}: {error.strerror}") from error
    return Report(lines, notices)


def _precision(run: Path) -> Precision:
    """The precision that the run was measured with: it says why each case stopped."""
    try:
        return Precision(**yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))["precision"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise UsageError(f"{run / 'config.yaml'} is not a sweep's configuration") from error


def _plots(directory: Path, lines: list[Line]) -> None:
    from harness.report.plots.curves import MEMORY, TIME, curves
    from harness.report.plots.speedup import speedup

    directory.mkdir(exist_ok=True)
    for setting in settings(lines):
        end = f"_{setting.name}" if setting.name else ""
        if any(line.time_s is not None for panel in setting.panels for line in panel.lines):
            _save(curves(setting, TIME), directory / f"time{end}")
        if any(line.peak_bytes for panel in setting.panels for line in panel.lines):
            _save(curves(setting, MEMORY), directory / f"memory{end}")
        heat_map = speedup(setting)
        if heat_map is not None:
            _save(heat_map, directory / f"speedup{end}")


def _save(figure: "Figure", path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=130)
    figure.set_layout_engine("none")  # laid out once, for both: it is half of the drawing
    figure.savefig(path.with_suffix(".svg"))
