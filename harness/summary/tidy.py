"""A tidy table read back: `summary.csv`, or anybody's with the columns that matter."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError, did_you_mean
from harness.summary.line import COLUMNS, Line

if TYPE_CHECKING:
    import pandas as pd

# What a column is taken for where the table has none.
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
}
_COSTS = ("time_s", "peak_bytes", "flops", "depth", "ops", "min_bytes")
_WHOLE = {field.name for field in fields(Line) if "int" in str(field.type)}


def lines_of(table: "pd.DataFrame") -> list[Line]:
    """A line for every row of a table with a column `seq_len` and one cost at least; more columns as in `summary.csv`.

    Times are seconds, without `time_lo_s` and `time_hi_s` known exactly. Raises UsageError without such columns or for
    a size or count that is not whole.
    """
    if "seq_len" not in table.columns:
        raise UsageError(f"the table has no column seq_len{did_you_mean('seq_len', [str(c) for c in table.columns])}")
    if not set(_COSTS) & set(table.columns):
        raise UsageError(f"the table has no cost: it needs one column at least of {', '.join(_COSTS)}")
    known = [name for name in COLUMNS if name in table.columns]
    bounded = {"time_lo_s", "time_hi_s"} <= set(known)
    return [_line(record, bounded) for record in table[known].astype(object).to_dict("records")]


def _line(record: Mapping[Any, Any], bounded: bool) -> Line:
    values: dict[str, Any] = {}
    for name in COLUMNS:
        value = record.get(name)
        missing = value is None or value != value or str(value) in ("<NA>", "NaT")
        values[name] = _ASSUMED.get(name) if missing else _whole(name, value) if name in _WHOLE else value
    values["family"] = values["family"] or str(values["impl"]).split(".")[0]
    if not bounded:
        values["time_lo_s"] = values["time_hi_s"] = values["time_s"]
    return Line(**values)


def _whole(name: str, value: Any) -> int:
    if float(value) != int(value):
        raise UsageError(f"{name}={value} is not a whole number")
    return int(value)
