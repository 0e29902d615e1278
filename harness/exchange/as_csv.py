"""The summary, a line a case, as `summary.csv` has it."""

from harness.csv_cells import to_csv
from harness.errors import UsageError
from harness.exchange.formats import Exported
from harness.summary import table
from harness.summary.stored import Stored


def export(stored: Stored) -> Exported:
    """Every case, failed ones too. Raises UsageError where a number is larger than a table can hold."""
    try:
        text = to_csv(table(stored.lines), "%.6g")
    except (OverflowError, TypeError) as error:
        raise UsageError(f"{stored.path}: a count is beyond 64 bits and fits into no table") from error
    return Exported(text.encode("utf-8", "backslashreplace"), len(stored.lines))
