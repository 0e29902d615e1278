"""JSON that every reader accepts: ASCII, without infinities or NaN."""

import json
import math
from typing import Any

from harness.summary import COLUMNS, Line


def cells(line: Line) -> dict[str, Any]:
    """The line's columns that have a value, without infinities and NaN."""
    return {name: value for name in COLUMNS if is_something(value := getattr(line, name))}


def is_something(value: Any) -> bool:
    """Whether the value is neither None nor an infinite or NaN float."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def as_json(data: Any) -> bytes:
    """The data as indented JSON. Raises ValueError for an infinity or NaN."""
    return json.dumps(data, indent=2, allow_nan=False).encode("ascii") + b"\n"
