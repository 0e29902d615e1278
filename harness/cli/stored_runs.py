"""The commands `report RUN` and `status RUN`, which read a run."""

import argparse
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from harness.core.model.errors import UsageError, notify
from harness.core.model.formatting import counted
from harness.core.results import run_directory, stored_run
from harness.core.results.columns import CaseResult
from harness.core.results.run_directory import holder
from harness.core.run.output_directory import launchers
from harness.study.report.background_plots import BackgroundPlots
from harness.study.report.document import show

from .commands import DONE

if TYPE_CHECKING:
    from harness.study.report.report_data import Contents


def run_report(options: argparse.Namespace) -> int:
    """Rebuild a run's tables and plots and print its answer.

    Raises UsageError without a directory to write to, or if it contains another run, whose tables would be lost.
    """
    run, out = options.run, options.out
    if out is None and run.is_file():
        raise UsageError(f"{run} is a file: name a directory for the report with -o DIR")
    if out is not None and (out / "config.yaml").exists() and out.resolve() != run.resolve():
        raise UsageError(f"{out} is another run: name a directory of its own with -o DIR")
    contents, written = write_report(run, not options.no_plots, out, options.baseline)
    notify(*contents.notices)
    show_report(contents, run, out or run, written, Console(highlight=False))
    if options.open:
        open_report(out or run)
    return DONE


def write_report(
    run: Path, plots: bool, out: Path | None = None, baseline: str | None = None
) -> "tuple[Contents, list[str]]":
    """Write the report of a run. Returns its contents and the names of its files."""
    with BackgroundPlots() if plots else nullcontext() as drawing:
        # Imported here: the process that draws loads its libraries meanwhile.
        from harness.study.report.build import build

        return build(run, drawing, out, baseline)


def show_report(contents: "Contents", run: Path, directory: Path, written: Sequence[str], console: Console) -> None:
    """Print the answer of a run's report in `directory`, and the names of its files."""
    from harness.study.report.report_data import next_steps, show_answer  # loads what fits cost models

    show_answer(contents, console)
    for line in next_steps(contents, run, directory, written):
        console.out(line)


def open_report(directory: Path) -> None:
    """Open the report in a browser. Prints its address if there is no browser, as on a server."""
    import webbrowser

    page = (directory / "report.html").absolute()
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        browser = None
    if browser is None or not browser.open(page.as_uri()):
        notify(f"no browser could be started here: open {page} yourself")


def run_status(options: argparse.Namespace) -> int:
    """Show the progress of a run."""
    path = options.run
    run_directory.check_run(path)
    stored = stored_run.read_run_directory(path)
    lines = {line.case: line for line in stored.lines}
    who, alive = holder(path)
    shards = [table for launcher in launchers() if (table := launcher.shards_table(path, lines)) is not None]
    # Shards hold no lock: their states name processes.
    writer = [_writer(who, alive)] if who is not None or not shards else []
    show([f"{path}: {_counts(stored.lines)}", *shards, *writer, *stored.notices], Console(highlight=False))
    return DONE


def _counts(lines: Sequence[CaseResult]) -> str:
    if not lines:
        return "no case has rows yet"
    finished = sum(line.is_finished for line in lines)
    failed = Counter(line.status for line in lines if line.status != "ok")
    text = "".join(f", {number} {status}" for status, number in sorted(failed.items()))
    return f"{counted(len(lines), 'case')} with rows: {finished} finished{text}, {len(lines) - finished} begun"


def _writer(who: str | None, alive: bool | None) -> str:
    if who is None:
        return "No process is measuring this run now."
    if alive is None:
        return f"The lock names {who.rstrip(',')}. Only that machine can tell whether the process still runs."
    if alive:
        return f"Measured now by {who.rstrip(',')}."
    return f"{who} stopped before its end. Run the same command to continue."
