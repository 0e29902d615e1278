"""Time and peak memory for github-action-benchmark, whose `customSmallerIsBetter` tool keeps and plots a history.

The tool compares entries by `name` and ignores units. Names and units are therefore the same for every value.
"""

import math
from collections.abc import Iterator
from typing import Any

from harness.errors import UsageError
from harness.exchange.formats import Exported
from harness.exchange.naming import label
from harness.exchange.plain import as_json, is_something
from harness.summary import Line
from harness.summary.stored import Stored

_MS = 1e3
# The action puts a name between backticks in a table cell, where nothing can be escaped.
_CELL = str.maketrans({"|": "¦", "`": "'", "\\": "/"})
_EXTRA = ("trials", "stop_reason", "flops", "depth", "backend")


def export(stored: Stored) -> Exported:
    """Export the cases with a time or peak memory; a notice counts the others.

    Raises UsageError if no case has either.
    """
    measured = [line for line in stored.lines if line.status == "ok" and any(_entries(line))]
    if not measured:
        raise UsageError(f"{stored.path} has neither times nor memory to export")
    entries = [entry for line in measured for entry in _entries(line)]
    left = len(stored.lines) - len(measured)
    notices = [f"{left} case{'s' if left > 1 else ''} that came to nothing left out"] if left else []
    return Exported(as_json(entries), len(measured), notices)


def _entries(line: Line) -> Iterator[dict[str, Any]]:
    name = label(line).translate(_CELL)
    if line.time_s is not None:
        time = {"name": f"{name}: time", "unit": "ms", "value": float(f"{line.time_s * _MS:.6g}")}
        yield {**time, **_range(line), "extra": _extra(line)}
    if line.peak_bytes is not None:
        yield {"name": f"{name}: peak memory", "unit": "bytes", "value": line.peak_bytes, "extra": _extra(line)}


def _range(line: Line) -> dict[str, str]:
    """The interval; empty if it is unknown or has no upper end."""
    lo_s, hi_s = line.time_lo_s, line.time_hi_s
    if lo_s is None or hi_s is None or not math.isfinite(hi_s):
        return {}
    return {"range": f"{lo_s * _MS:.4g} to {hi_s * _MS:.4g}"}


def _extra(line: Line) -> str:
    return "\n".join(f"{name}: {value}" for name in _EXTRA if is_something(value := getattr(line, name)))
