"""Measure the costs of sequence layers: time, memory, FLOPs and sequential depth over n, h and d.

From a notebook: `run = harness.load("results/latest")`; `run.table`, `run.laws`, `run.plot.overview()`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from harness.extras.notebook.loaded_run import Plots, Run

__version__ = "0.1.0"


def load(path: "str | Path") -> "Run":
    """Load a run directory or a pytest-benchmark JSON file, with its tables, cost models and plots.

    Raises `harness.errors.UsageError` if `path` is neither.
    """
    from harness.extras.notebook import loaded_run as notebook

    return notebook.load(path)


def laws_of(table: "pd.DataFrame") -> "pd.DataFrame":
    """Fit cost models to a tidy table.

    The table needs a column `seq_len` and a cost such as `time_s`; other columns are optional.
    """
    from harness.extras.notebook import loaded_run as notebook

    return notebook.laws_of(table)


def plots_of(table: "pd.DataFrame") -> "Plots":
    """Draw the plots of a tidy table: `harness.plots_of(table).overview()`.

    The table needs a column `seq_len` and a cost such as `time_s`; other columns are optional.
    """
    from harness.extras.notebook import loaded_run as notebook

    return notebook.plots_of(table)
