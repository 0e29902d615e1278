"""The formats that a run can be exported to, by name. Each is a file here, loaded only when it is asked for."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UsageError, did_you_mean
from harness.summary.stored import Stored

FORMATS = {
    "pytest-benchmark": "pytest_benchmark",
    "csv": "as_csv",
    "parquet": "parquet",
    "github-action-benchmark": "github_action",
}
# What no terminal can show.
BINARY = frozenset({"parquet"})


@dataclass(frozen=True)
class Exported:
    """The bytes of a file, how many cases it holds, and a sentence for each thing that the format has no place for."""

    content: bytes
    cases: int
    notices: Sequence[str] = ()


def check_format(name: str) -> None:
    """Raise UsageError for a format that there is none of."""
    if name not in FORMATS:
        raise UsageError(f"unknown format '{name}'{did_you_mean(name, FORMATS)}")


def export(stored: Stored, name: str) -> Exported:
    """The run in that format. Raises UsageError for an unknown one, or where the run has nothing to put into it."""
    check_format(name)
    found: Exported = importlib.import_module(f"harness.exchange.{FORMATS[name]}").export(stored)
    return found
