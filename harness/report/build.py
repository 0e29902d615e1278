"""Rebuild a run's tables, plots and reports from its rows alone, or make them from pytest-benchmark results."""

import errno
from dataclasses import dataclass
from pathlib import Path

from harness.csv_cells import to_csv
from harness.errors import UsageError
from harness.findings.crossovers import crossovers_table
from harness.findings.findings import Findings, find
from harness.findings.laws import laws_table
from harness.findings.papers.claims import judged_table
from harness.findings.papers.figures import published_table
from harness.findings.verdicts import claims_table
from harness.report.markdown import markdown
from harness.report.origin import origin
from harness.report.page.page import page
from harness.report.studio import Studio
from harness.summary import Line, table
from harness.summary.stored import Stored, read_stored
from harness.whole_file import write_whole

PLOTS = "plots"


@dataclass(frozen=True)
class Report:
    """The result of `build`.

    `lines` are the run's cases and `findings` what they show. The `notices` include a message for each row that could
    not be read. The names of the written files are in `written`.
    """

    lines: list[Line]
    findings: Findings
    notices: list[str]
    written: tuple[str, ...]


def build(run: Path, studio: Studio | None = None, out: Path | None = None) -> Report:
    """Write reports, tables and, if `studio` is given, plots into `out`, by default the run's own directory.

    Raises UsageError if `run` is not a run or the directory cannot be written.
    """
    stored = read_stored(run)
    directory = out or run
    try:
        if out is not None:  # a run that was renamed meanwhile must not get another directory in its place
            directory.mkdir(parents=True, exist_ok=True)
        return _build(stored, directory, studio)
    except OSError as error:
        raise UsageError(_told(error, directory, run)) from error


def _told(error: OSError, directory: Path, run: Path) -> str:
    """An error message: what could not be written, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        rows = "all that was measured is in its rows: " if run == directory else ""
        return f"{directory}: {error.strerror}: {rows}make room, and give the same command again"
    return f"{error.filename or directory}: {error.strerror}"


def _build(stored: Stored, run: Path, studio: Studio | None) -> Report:
    lines, notices, where = stored.lines, stored.notices, origin(stored)
    if studio:
        studio.begin(run / PLOTS, lines, stored.machine)
    findings = find(lines, stored.machine, stored.config)
    written = {
        "report.html": page(lines, findings, where, notices),
        "report.md": markdown(lines, findings, where),
        "summary.csv": to_csv(table(lines), "%.6g"),
        "laws.csv": to_csv(laws_table(findings.laws), "%.6g"),
        "claims.csv": to_csv(claims_table(findings.verdicts)),
        "crossovers.csv": to_csv(crossovers_table(findings.crossovers), "%.6g"),
    }
    if findings.published is not None:
        figures, claims = published_table(findings.published.figures), judged_table(findings.published.claims)
        written["published.csv"] = to_csv(figures, "%.6g")
        written["published_claims.csv"] = to_csv(claims, "%.6g")
    for name, text in written.items():
        write_whole(run / name, text)
    if studio:
        studio.finish()
    return Report(lines, findings, notices, (*written, *([f"{PLOTS}/"] if studio else ())))
