"""`python -m harness report RUN`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from harness.cli import DONE
from harness.cli.parser import Parser
from harness.report.studio import Studio


def run(arguments: Sequence[str]) -> int:
    """Rebuild a run's tables and plots and print its answer."""
    parser = Parser("report", "Rebuild the tables and plots of a run from its rows. Measures nothing.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, such as results/latest")
    path = parser.parse_args(arguments).run
    with Studio() as studio:
        # Here: what draws loads meanwhile.
        from harness.report.answer import show
        from harness.report.build import WRITTEN, build

        report = build(path, studio)
    for notice in report.notices:
        print(f"harness: {notice}", file=sys.stderr)
    console = Console()
    show(report.lines, report.findings, console)
    console.out(f"{path}: {WRITTEN}", highlight=False)
    return DONE
