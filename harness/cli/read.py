"""Read a run for a command that measures nothing."""

import sys
from pathlib import Path

from harness.summary import Line
from harness.summary.stored import read_stored


def lines_of(run: Path) -> list[Line]:
    """The run's lines; what could not be read is told on stderr. Raises UsageError where it is no run."""
    stored = read_stored(run)
    for notice in stored.notices:
        print(f"harness: {notice}", file=sys.stderr)
    return stored.lines
