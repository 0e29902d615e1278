"""CSV whose text no spreadsheet runs as a formula.

A name or reason of a layer may begin with `=`, `+`, `-`, `@`, a tab or a line break. A single quote before it makes the
cell a text (OWASP, "CSV Injection"). Numbers stay as they are. Reading takes the quote away again.
"""

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# The full-width signs count as the plain ones where a spreadsheet is set to Japanese.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escaped(cell: Any) -> Any:
    """The cell as it is written: a text that would be run gets a quote before it, anything else stays."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def unescaped(cell: Any) -> Any:
    """The cell as it was before `escaped`."""
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell) else cell


def to_csv(frame: "pd.DataFrame", float_format: str | None = None) -> str:
    """The table as CSV with a header. Raises OverflowError or TypeError where a number does not fit."""
    lines = _Lines()
    _texts(frame, escaped).to_csv(lines, index=False, float_format=float_format, lineterminator=_Lines.END)
    return lines.getvalue()


def from_csv(text: str) -> "pd.DataFrame":
    """The table that `to_csv` has written. Raises ValueError for what is no table."""
    import pandas as pd

    return _texts(pd.read_csv(io.StringIO(text)), unescaped)


class _Lines(io.StringIO):
    """Lines that end in a line feed. Python quotes a carriage return in a cell only where line ends hold one as well;
    without quotes it would end the line, and the rest of the cell might be run.
    """

    END = "\r\n"

    def write(self, line: str) -> int:
        """Take one line of `csv.writer`."""
        return super().write(line.removesuffix(self.END) + "\n")


def _texts(frame: "pd.DataFrame", change: Callable[[Any], Any]) -> "pd.DataFrame":
    """The table with its texts changed; numbers would lose digits on the way."""
    texts = frame.select_dtypes(exclude=["number", "bool"])
    return frame.assign(**{str(name): texts[name].map(change, na_action="ignore") for name in texts})
