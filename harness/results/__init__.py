"""Summarise the rows of a run as a tidy table: one line per case, units in the column names."""

from harness.results.summarise import summarise, summarise_run
from harness.results.table import COLUMNS, CaseResult, table

__all__ = ["COLUMNS", "CaseResult", "summarise", "summarise_run", "table"]
