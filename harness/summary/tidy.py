"""Read lines from a tidy table: `summary.csv`, or any table with the required columns."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.case import AXES, Case
from harness.errors import UsageError, did_you_mean
from harness.summary.line import COLUMNS, WHOLE, Line

if TYPE_CHECKING:
    import pandas as pd

# Default values of columns that the table lacks.
_ASSUMED: dict[str, Any] = {
    "impl": "layer",
    "d_model": 1,
    "num_heads": 1,
    "batch_size": 1,
    "mode": "forward",
    "dtype": "float32",
    "device": "cpu",
    "threads": 1,
    "status": "ok",
    "trials": 1,
    "allocator": "default",
    "mask": "none",
    "real_share": 1.0,
    "source_len": 0,
}
_COSTS = ("time_s", "peak_bytes", "flops", "depth", "ops", "min_bytes")
_LEAST: dict[str, int] = dict.fromkeys(("seq_len", "d_model", "num_heads", "batch_size", "threads"), 1)
_TIMES = ("time_s", "time_lo_s", "time_hi_s")


def lines_of(table: "pd.DataFrame") -> list[Line]:
    """A line for every row of a table. Columns are named as in `summary.csv`.

    The table needs `seq_len` and at least one cost. Times are in seconds, and count as exact unless both `time_lo_s`
    and `time_hi_s` are given. Raises UsageError for a missing column, an invalid size, count or time, or several rows
    of the same case.
    """
    if not hasattr(table, "columns") or not hasattr(table, "to_dict"):
        raise UsageError(f"a table is a pandas DataFrame, not a {type(table).__name__}")
    if "seq_len" not in table.columns:
        raise UsageError(f"the table has no column seq_len{did_you_mean('seq_len', [str(c) for c in table.columns])}")
    if not set(_COSTS) & set(table.columns):
        raise UsageError(f"the table has no cost: it needs one column at least of {', '.join(_COSTS)}")
    known = [name for name in COLUMNS if name in table.columns]
    bounded = {"time_lo_s", "time_hi_s"} <= set(known)
    found = [_line(record, bounded) for record in table[known].astype(object).to_dict("records")]
    seen: set[tuple[Any, ...]] = set()
    for line in found:
        case = tuple(getattr(line, axis) for axis in AXES)
        if case in seen:
            raise UsageError(f"several rows are of {Case(*case)}: choose by the table's other columns first")
        seen.add(case)
    return found


def _line(record: Mapping[Any, Any], bounded: bool) -> Line:
    values: dict[str, Any] = {}
    for name in COLUMNS:
        value = record.get(name)
        missing = value is None or value != value or str(value) in ("<NA>", "NaT")
        values[name] = _ASSUMED.get(name) if missing else _read(name, value)
    if values["seq_len"] is None:
        raise UsageError("a row has no seq_len")
    values["family"] = values["family"] or str(values["impl"]).split(".")[0]
    if not bounded:
        values["time_lo_s"] = values["time_hi_s"] = values["time_s"]
    return Line(**values)


def _read(name: str, value: Any) -> Any:
    if name in WHOLE:
        return _whole(name, value)
    return _seconds(name, value) if name in _TIMES else value


def _whole(name: str, value: Any) -> int:
    try:
        whole = int(value)
    except (ValueError, OverflowError, TypeError):
        whole = None
    if whole is None or whole != value or whole < _LEAST.get(name, 0):
        raise UsageError(f"{name}={value} is not a whole number from {_LEAST.get(name, 0)} on")
    return whole


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (ValueError, TypeError):
        seconds = math.nan
    # The ends of an interval may be 0 or infinite; a time may not.
    end = name in ("time_lo_s", "time_hi_s")
    if not (seconds >= 0 if end else 0 < seconds < math.inf):
        raise UsageError(f"{name}={value} is not a time in seconds above zero")
    return seconds
