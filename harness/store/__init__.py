"""The directory of a run. Rows are appended as they arrive, and stay readable if the writer was killed.

config.yaml   machine.json   rows/*.jsonl   summary.csv   laws.csv   plots/
"""

from harness.store.directory import (
    CONFIG,
    MACHINE,
    Lock,
    add_machine,
    check_new,
    check_run,
    create,
    is_run,
    lacks_config,
    link_latest,
    machines,
    recalled,
    remember,
    set_aside,
)
from harness.store.rows import (
    NAMED,
    SCHEMA,
    Part,
    Reading,
    RowWriter,
    damage_notices,
    duplicate_notices,
    read_part,
    row_parts,
)

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
    "create",
    "damage_notices",
    "duplicate_notices",
    "is_run",
    "lacks_config",
    "link_latest",
    "machines",
    "read_part",
    "recalled",
    "remember",
    "row_parts",
    "set_aside",
]
