"""Rebuild a run's tables, plots and reports from its rows alone, or make them from pytest-benchmark results."""

import errno
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.analyse import Analysis, analyse
from harness.analysis.claims_table import claims_table
from harness.analysis.crossovers import crossovers_table
from harness.analysis.fitted_laws import laws_table
from harness.analysis.published_claims import judged_claims_table, published_table
from harness.errors import UsageError
from harness.files import to_csv, write_atomically
from harness.report.background_plots import BackgroundPlots
from harness.report.html.page import page
from harness.report.markdown import report_markdown
from harness.report.provenance import provenance_of
from harness.results.run_directory import StoredRun, read_run_directory
from harness.results.table import CaseResult, table

PLOTS = "plots"


@dataclass(frozen=True)
class Report:
    """The result of `build`.

    `lines` are the run's cases and `findings` what they show. The `notices` include a message for each row that could
    not be read. The names of the written files are in `written`.
    """

    lines: list[CaseResult]
    findings: Analysis
    notices: list[str]
    written: tuple[str, ...]


def build(run: Path, studio: BackgroundPlots | None = None, out: Path | None = None) -> Report:
    """Write reports, tables and, if `studio` is given, plots into `out`, by default the run's own directory.

    Raises UsageError if `run` is not a run or the directory cannot be written.
    """
    stored = read_run_directory(run)
    directory = out or run
    try:
        if out is not None:  # a run that was renamed meanwhile must not get another directory in its place
            directory.mkdir(parents=True, exist_ok=True)
        return _build(stored, directory, studio)
    except OSError as error:
        raise UsageError(_notices(error, directory, run)) from error


def _notices(error: OSError, directory: Path, run: Path) -> str:
    """An error message: what could not be written, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        rows = "all that was measured is in its rows: " if run == directory else ""
        return f"{directory}: {error.strerror}: {rows}make room, and give the same command again"
    return f"{error.filename or directory}: {error.strerror}"


def _build(stored: StoredRun, run: Path, studio: BackgroundPlots | None) -> Report:
    lines, notices, where = stored.lines, stored.notices, provenance_of(stored)
    if studio:
        studio.begin(run / PLOTS, lines, stored.machine)
    findings = analyse(lines, stored.machine, stored.config)
    written = {
        "report.html": page(lines, findings, where, notices),
        "report.md": report_markdown(lines, findings, where),
        "summary.csv": to_csv(table(lines), "%.6g"),
        "laws.csv": to_csv(laws_table(findings.laws), "%.6g"),
        "claims.csv": to_csv(claims_table(findings.verdicts)),
        "crossovers.csv": to_csv(crossovers_table(findings.crossovers), "%.6g"),
    }
    if findings.published is not None:
        figures, claims = published_table(findings.published.figures), judged_claims_table(findings.published.claims)
        written["published.csv"] = to_csv(figures, "%.6g")
        written["published_claims.csv"] = to_csv(claims, "%.6g")
    for name, text in written.items():
        write_atomically(run / name, text)
    if studio:
        studio.finish()
    return Report(lines, findings, notices, (*written, *([f"{PLOTS}/"] if studio else ())))
