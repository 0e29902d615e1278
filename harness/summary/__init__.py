"""Rows in, one tidy table out: a line a case, units in the names."""

from harness.summary.line import COLUMNS, Line, table
from harness.summary.summarise import summarise, summarise_run

__all__ = ["COLUMNS", "Line", "summarise", "summarise_run", "table"]
