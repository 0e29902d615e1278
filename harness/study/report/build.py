"""Rebuild a run's tables, plots and reports from its rows alone, or make them from pytest-benchmark results."""

import errno
from dataclasses import replace
from pathlib import Path

from harness.core.model.errors import UsageError
from harness.core.model.file_io import to_csv, write_atomically
from harness.core.results.columns import table
from harness.core.results.stored_run import read_run_directory
from harness.study.analyse import analyse
from harness.study.claims.claims_table import claims_table
from harness.study.complete_lines import complete_lines
from harness.study.laws import crossovers
from harness.study.laws.fitted_laws import laws_table

from .background_plots import BackgroundPlots
from .figure_panels import drawn_settings
from .html.page import page
from .provenance import provenance_of
from .report_data import Contents, report_markdown

PLOTS = "plots"


def build(
    run: Path, drawing: BackgroundPlots | None = None, out: Path | None = None, baseline: str | None = None
) -> tuple[Contents, list[str]]:
    """Write reports, tables and, if `drawing` is given, plots into `out`, by default the run's own directory.

    Times are also given relative to the layer `baseline`, by default that of the run's configuration.
    Returns what the reports say, and the names of the written files. Raises UsageError if `run` is not a run or the
    directory cannot be written.
    """
    stored = read_run_directory(run)
    baseline = baseline or stored.config.get("baseline")
    lines, laws = complete_lines(stored.lines, stored.machine, baseline)
    stored = replace(stored, lines=lines)
    provenance = provenance_of(stored)
    directory = out or run
    try:
        if out is not None:  # a run that was renamed meanwhile must not get another directory in its place
            directory.mkdir(parents=True, exist_ok=True)
        if drawing:
            if (directory / PLOTS).is_symlink():
                (directory / PLOTS).unlink()
            drawing.hand_over("draw", directory / PLOTS, stored.lines, stored.machine)
        findings = analyse(stored.lines, stored.machine, stored.config, laws)
        contents = Contents(stored.lines, findings, provenance, stored.notices, baseline or "")
        if drawing:
            drawn = {setting.name for setting in drawn_settings(contents.settings)}
            overviews = [overview for overview in contents.overviews if overview.name in drawn]
            drawing.hand_over("draw_overviews", directory / PLOTS, overviews)
        texts = {
            "report.html": page(contents),
            "report.md": report_markdown(contents),
            "summary.csv": to_csv(table(stored.lines), "%.6g"),
            "laws.csv": to_csv(laws_table(findings.laws), "%.6g"),
            "claims.csv": to_csv(claims_table(findings.verdicts)),
            "crossovers.csv": to_csv(crossovers.crossovers_table(findings.crossovers), "%.6g"),
        }
        for more in findings.more:
            texts |= {name: to_csv(rows, "%.6g") for name, rows in more.tables.items()}
        for name, text in texts.items():
            write_atomically(directory / name, text)
        if drawing:
            drawing.finish()
    except OSError as error:
        notice = f"{error.filename or directory}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            rows = "all that was measured is in its rows: " if run == directory else ""
            notice = f"{directory}: {error.strerror}: {rows}make room, and give the same command again"
        raise UsageError(notice) from error
    return contents, [*texts, *([f"{PLOTS}/"] if drawing else [])]
