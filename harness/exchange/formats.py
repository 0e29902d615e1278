"""The export formats by name. Each is a module in this package, imported only when it is needed."""

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
# Formats that a terminal cannot show.
BINARY = frozenset({"parquet"})


@dataclass(frozen=True)
class Exported:
    """The bytes of a file, its number of cases, and a sentence for each thing that the format cannot hold."""

    content: bytes
    cases: int
    notices: Sequence[str] = ()


def check_format(name: str) -> None:
    """Raise UsageError for an unknown format."""
    if name not in FORMATS:
        raise UsageError(f"unknown format '{name}'{did_you_mean(name, FORMATS)}")


def export(stored: Stored, name: str) -> Exported:
    """Export the run to the format `name`. Raises UsageError if it is unknown or the run has nothing for it."""
    check_format(name)
    found: Exported = importlib.import_module(f"harness.exchange.{FORMATS[name]}").export(stored)
    return found
