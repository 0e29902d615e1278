"""Export a run to other tools' formats: CSV, Parquet, github-action-benchmark and pytest-benchmark's JSON.

Other tools keep a history by a case's name, so a name must not change when an axis is added. Sizes are always part of
it. Other axes are part of it only if they differ from their defaults. All are written as on the command line of
`sweep`.
"""

import importlib
import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.case import AXES, DEFAULTS
from harness.errors import UsageError, did_you_mean
from harness.files import to_csv
from harness.formatting import printable
from harness.results.run_directory import StoredRun
from harness.results.table import COLUMNS, CaseResult, table

# The module of each format's function, which is imported only when it is needed.
FORMATS = {
    "pytest-benchmark": "harness.export_pytest_benchmark",
    "csv": "harness.export",
    "parquet": "harness.export_parquet",
    "github-action-benchmark": "harness.export",
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


def export(stored: StoredRun, name: str) -> Exported:
    """Export the run to the format `name`. Raises UsageError if it is unknown or the run has nothing for it."""
    check_format(name)
    module = importlib.import_module(FORMATS[name])
    found: Exported = getattr(module, f"export_{name.replace('-', '_')}")(stored)
    return found


def plain_cells(line: CaseResult) -> dict[str, Any]:
    """The line's columns that have a value, without infinities and NaN."""
    return {name: value for name in COLUMNS if has_value(value := getattr(line, name))}


def has_value(value: Any) -> bool:
    """Whether the value is neither None nor an infinite or NaN float."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def as_json(data: Any) -> bytes:
    """The data as indented ASCII JSON. Raises ValueError for an infinity or NaN."""
    return json.dumps(data, indent=2, allow_nan=False).encode("ascii") + b"\n"


_SIZES = ("seq_len", "d_model", "num_heads")


def axes_of_line(line: CaseResult) -> dict[str, Any]:
    """The line's axes by name."""
    return line.case.as_dict()


def overrides(line: CaseResult, without: Collection[str] = ()) -> str:
    """The axes that tell the case from others of its impl: `seq_len=64 d_model=128 num_heads=2 mode=train`."""
    axes = axes_of_line(line)
    named = [axis for axis in AXES if axis in _SIZES or (axis != "impl" and axes[axis] != DEFAULTS[axis])]
    return printable(" ".join(f"{axis}={axes[axis]}" for axis in named if axis not in without))


def case_label(line: CaseResult) -> str:
    """The case's full name: `attention.fused seq_len=64 d_model=128 num_heads=2`."""
    return f"{printable(line.impl)} {overrides(line)}"


_SUFFIXES = {"_s": "s", "_bytes": "B", "_mhz": "MHz"}
_UNITS = {
    "seq_len": "token",
    "kv_len": "token",
    "tokens_per_s": "token/s",
    "flops": "FLOP",
    "flops_full": "FLOP",
    "flops_claimed": "FLOP",
    "flops_per_byte": "FLOP/B",
    "minor_faults_per_call": "1/call",
    "involuntary_switches": "1/trial",
}


def unit(column: str, is_number: bool) -> str:
    """The column's unit: an SI unit, bytes, or 1 for a count; empty for texts and flags."""
    if not is_number:
        return ""
    return _UNITS.get(column) or next((unit for end, unit in _SUFFIXES.items() if column.endswith(end)), "1")


def export_csv(stored: StoredRun) -> Exported:
    """Export every case, failed ones included. Raises UsageError if a count exceeds 64 bits."""
    try:
        text = to_csv(table(stored.lines), "%.6g")
    except (OverflowError, TypeError) as error:
        raise UsageError(f"{stored.path}: a count is beyond 64 bits and fits into no table") from error
    return Exported(text.encode("utf-8", "backslashreplace"), len(stored.lines))


_MS = 1e3
# The action puts a name between backticks in a table cell, where nothing can be escaped.
_CELL = str.maketrans({"|": "¦", "`": "'", "\\": "/"})
_EXTRA = ("trials", "stop_reason", "flops", "depth", "backend")


def export_github_action_benchmark(stored: StoredRun) -> Exported:
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


def _entries(line: CaseResult) -> Iterator[dict[str, Any]]:
    name = case_label(line).translate(_CELL)
    if line.time_s is not None:
        time = {"name": f"{name}: time", "unit": "ms", "value": float(f"{line.time_s * _MS:.6g}")}
        yield {**time, **_range(line), "extra": _extra(line)}
    if line.peak_bytes is not None:
        yield {"name": f"{name}: peak memory", "unit": "bytes", "value": line.peak_bytes, "extra": _extra(line)}


def _range(line: CaseResult) -> dict[str, str]:
    """The interval; empty if it is unknown or has no upper end."""
    lo_s, hi_s = line.time_lo_s, line.time_hi_s
    if lo_s is None or hi_s is None or not math.isfinite(hi_s):
        return {}
    return {"range": f"{lo_s * _MS:.4g} to {hi_s * _MS:.4g}"}


def _extra(line: CaseResult) -> str:
    return "\n".join(f"{name}: {value}" for name in _EXTRA if has_value(value := getattr(line, name)))
