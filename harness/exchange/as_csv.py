"""The summary as CSV, one row per case, like `summary.csv`."""

from harness.csv_cells import to_csv
from harness.errors import UsageError
from harness.exchange.formats import Exported
from harness.summary import table
from harness.summary.stored import Stored


def export(stored: Stored) -> Exported:
    """Export every case, failed ones included. Raises UsageError if a count exceeds 64 bits."""
    try:
        text = to_csv(table(stored.lines), "%.6g")
    except (OverflowError, TypeError) as error:
        raise UsageError(f"{stored.path}: a count is beyond 64 bits and fits into no table") from error
    return Exported(text.encode("utf-8", "backslashreplace"), len(stored.lines))
