"""JSON that every reader takes: ASCII, and no number that is not finite."""

import json
import math
from typing import Any

from harness.summary import COLUMNS, Line


def cells(line: Line) -> dict[str, Any]:
    """The line's columns that hold something: neither nothing nor a number that is not finite."""
    return {name: value for name in COLUMNS if is_something(value := getattr(line, name))}


def is_something(value: Any) -> bool:
    """Whether there is a value, and a finite one."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def as_json(data: Any) -> bytes:
    """The data, indented. Raises ValueError for a number that is not finite."""
    return json.dumps(data, indent=2, allow_nan=False).encode("ascii") + b"\n"
