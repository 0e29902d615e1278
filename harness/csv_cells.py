"""CSV with text cells that no spreadsheet runs as formulas.

The name or reason of a layer may begin with `=`, `+`, `-`, `@`, a tab or a line break. A leading single quote makes
the cell plain text (OWASP, "CSV Injection"). Numbers stay unchanged. Reading removes the quote again.
"""

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# A spreadsheet set to Japanese treats the full-width signs like the plain ones.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escaped(cell: Any) -> Any:
    """The cell as written to CSV: text that would run as a formula gets a leading quote, anything else stays."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def unescaped(cell: Any) -> Any:
    """The cell as it was before `escaped`."""
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell) else cell


def to_csv(frame: "pd.DataFrame", float_format: str | None = None) -> str:
    """The table as CSV with a header. Raises OverflowError or TypeError if a number cannot be written."""
    lines = _Lines()
    _texts(frame, escaped).to_csv(lines, index=False, float_format=float_format, lineterminator=_Lines.END)
    return lines.getvalue()


def from_csv(text: str) -> "pd.DataFrame":
    """Read a table that `to_csv` wrote. Raises ValueError if the text is not a table."""
    import pandas as pd

    return _texts(pd.read_csv(io.StringIO(text)), unescaped)


class _Lines(io.StringIO):
    """A buffer that collects CSV lines and ends each with a line feed.

    Python's `csv` quotes a carriage return in a cell only if the line terminator contains one. An unquoted carriage
    return would end the line, and a spreadsheet might run the rest of the cell. Lines are therefore written with `END`,
    which this buffer replaces.
    """

    END = "\r\n"

    def write(self, line: str) -> int:
        """Append one line from `csv.writer`."""
        return super().write(line.removesuffix(self.END) + "\n")


def _texts(frame: "pd.DataFrame", change: Callable[[Any], Any]) -> "pd.DataFrame":
    """The table with `change` applied to its text columns. Numeric columns are skipped: they would lose digits."""
    texts = frame.select_dtypes(exclude=["number", "bool"])
    return frame.assign(**{str(name): texts[name].map(change, na_action="ignore") for name in texts})
