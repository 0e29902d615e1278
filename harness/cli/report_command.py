"""`python -m harness report RUN [-o DIR]`."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from harness.cli import DONE
from harness.cli.parser import Parser
from harness.errors import UsageError
from harness.report.studio import Studio


def run(arguments: Sequence[str]) -> int:
    """Rebuild a run's tables and plots and print its answer."""
    parser = Parser("report", "Rebuild the tables and plots of a run from its rows. Measures nothing.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, or a pytest-benchmark JSON")
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="where to; into the run, if not given")
    parser.add_argument("--no-plots", action="store_true", help="tables and reports alone: seconds less")
    options = parser.parse_args(arguments)
    path, out = options.run, options.out
    _check(path, out)
    with nullcontext() if options.no_plots else Studio() as studio:
        # Imported here: the process that draws loads its libraries meanwhile.
        from harness.report.answer import show
        from harness.report.build import build

        report = build(path, studio, out)
    for notice in report.notices:
        print(f"harness: {notice}", file=sys.stderr)
    console = Console()
    show(report.lines, report.findings, console)
    console.out(f"{out or path}: {', '.join(report.written)}", highlight=False)
    return DONE


def _check(run: Path, out: Path | None) -> None:
    """Raise UsageError without a directory to write to, or if it contains another run, whose tables would be lost."""
    if out is None and run.is_file():
        raise UsageError(f"{run} is a file: say where the report is to go, with -o DIR")
    if out is not None and (out / "config.yaml").exists() and out.resolve() != run.resolve():
        raise UsageError(f"{out} is another run: name a directory of its own with -o DIR")
