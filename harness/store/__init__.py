"""A run's directory: rows appended as they come, read back whatever became of the writer.

config.yaml   machine.json   rows/*.jsonl   summary.csv   laws.csv   plots/
"""

from harness.store.directory import check_new, check_run, create, link_latest
from harness.store.reader import Part, Reading, notices, parts, read
from harness.store.writer import SCHEMA, RowWriter

__all__ = [
    "SCHEMA",
    "Part",
    "Reading",
    "RowWriter",
    "check_new",
    "check_run",
    "create",
    "link_latest",
    "notices",
    "parts",
    "read",
]
