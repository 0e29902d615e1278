"""Measure what sequence layers cost: time, memory, work and sequential depth over n, h and d.

From a notebook: `run = harness.load("results/latest")`; `run.table`, `run.laws`, `run.plot.time()`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from harness.notebook import Run

__version__ = "0.1.0"


def load(path: "str | Path") -> "Run":
    """The run whose directory is `path`, or the pytest-benchmark JSON there, with its tables, laws and plots.

    Raises `harness.errors.UsageError` where it is neither.
    """
    from harness import notebook  # here: `python -m harness --help` must not pay for it

    return notebook.load(path)


def laws_of(table: "pd.DataFrame") -> "pd.DataFrame":
    """The cost laws of anybody's tidy table: a column `seq_len`, a cost such as `time_s`, and what more there is."""
    from harness import notebook

    return notebook.laws_of(table)
