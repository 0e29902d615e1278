"""Summarise the rows of a run as a tidy table: one line per case, units in the column names."""

from harness.summary.line import COLUMNS, Line, table
from harness.summary.summarise import summarise, summarise_run

__all__ = ["COLUMNS", "Line", "summarise", "summarise_run", "table"]
