"""Read a run for a command that measures nothing."""

import sys
from pathlib import Path

from harness.summary import Line
from harness.summary.stored import read_stored


def lines_of(run: Path) -> list[Line]:
    """The summary lines of the run. Prints each unreadable place to stderr. Raises UsageError if `run` is not a run."""
    stored = read_stored(run)
    for notice in stored.notices:
        print(f"harness: {notice}", file=sys.stderr)
    return stored.lines
