"""The directory of a run. Rows are appended as they arrive, and stay readable if the writer was killed.

config.yaml   machine.json   rows/*.jsonl   summary.csv   laws.csv   plots/
"""

from harness.store.directory import (
    CONFIG,
    MACHINE,
    add_machine,
    check_new,
    check_run,
    create,
    is_run,
    lacks_config,
    link_latest,
    machines,
    remember,
    remembered,
    set_aside,
)
from harness.store.lock import Lock
from harness.store.reader import NAMED, Part, Reading, copies, notices, parts, read
from harness.store.writer import SCHEMA, RowWriter

__all__ = [
    "CONFIG",
    "MACHINE",
    "NAMED",
    "SCHEMA",
    "Lock",
    "Part",
    "Reading",
    "RowWriter",
    "add_machine",
    "check_new",
    "check_run",
    "copies",
    "create",
    "is_run",
    "lacks_config",
    "link_latest",
    "machines",
    "notices",
    "parts",
    "read",
    "remember",
    "remembered",
    "set_aside",
]
