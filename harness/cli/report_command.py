"""`python -m harness report RUN`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from harness.cli import DONE
from harness.cli.parser import Parser
from harness.report.answer import show
from harness.report.build import build


def run(arguments: Sequence[str]) -> int:
    """Rebuild a run's tables and plots and print its answer."""
    parser = Parser("report", "Rebuild the tables and plots of a run from its rows. Measures nothing.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, such as results/latest")
    path = parser.parse_args(arguments).run
    report = build(path)
    for notice in report.notices:
        print(f"harness: {notice}", file=sys.stderr)
    console = Console()
    show(report.lines, console)
    console.out(f"{path}: summary.csv, laws.csv, plots/", highlight=False)
    return DONE
