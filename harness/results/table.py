"""The line of a case in `summary.csv`: its columns and their units, and how tidy tables become lines and back."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from harness.case import AXES, Case
from harness.errors import UsageError, did_you_mean
from harness.former_names import FORMER, STATUSES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CaseResult:
    """The columns of one case, in this order. Units are seconds and bytes; None marks a missing value."""

    impl: str
    family: str
    seq_len: int
    d_model: int
    num_heads: int
    batch_size: int
    mode: str
    dtype: str
    device: str
    threads: int
    status: str
    reason: str | None
    # Time of one call.
    time_s: float | None
    time_lo_s: float | None
    time_hi_s: float | None
    time_median_s: float | None
    trials: int
    stop_reason: str | None
    # Memory of one call beyond weights and inputs: the total, the part the kernel saw, the part from torch's allocator.
    peak_bytes: int | None
    peak_resident_bytes: int | None
    peak_traced_bytes: int | None
    tokens_per_s: float | None
    # Exact facts of one call.
    flops: int | None
    flops_full: int | None
    ops: int | None
    depth: int | None
    depth_declared: int | None
    min_bytes: int | None
    weights_bytes: int | None
    inputs_bytes: int | None
    saved_bytes: int | None
    transient_bytes: int | None
    backend: str | None
    # Other observations of the timed trials.
    compile_s: float | None
    minor_faults_per_call: float | None
    involuntary_switches: float | None
    cpu_over_wall: float | None
    steal_share: float | None
    bimodal: bool | None
    sm_clock_mhz: float | None
    # Additions to these: the FLOPs that the layer claims; flops / min_bytes; why no faster kernel was used; why facts
    # are missing; the two times of a bimodal case and their cause. On a GPU: whether the host's launches take longer
    # than the work, and the time of back-to-back calls.
    allocator: str
    flops_claimed: int | None
    flops_per_byte: float | None
    backend_fallback: str | None
    facts_unknown: str | None
    bimodal_fast_s: float | None
    bimodal_slow_s: float | None
    bimodal_cause: str | None
    host_bound: bool | None
    wall_call_s: float | None
    # Claims of a user's own layer, as JSON by the names of `harness.claims.CLAIMS`.
    claims: str | None
    # Which tokens each token may attend to; the share of tokens that are not padding; the source length, 0 without one.
    mask: str
    padding_fraction: float
    kv_len: int
    # Hosts that timed the case, separated by commas.
    host: str | None

    @property
    def case(self) -> Case:
        """The case that this line describes."""
        return Case(*(getattr(self, axis) for axis in AXES))

    @property
    def allocates_outside_torch(self) -> bool:
        """Whether torch traced only a part of the peak memory, so that `peak_traced_bytes` is a lower bound."""
        return self.peak_bytes is None and self.peak_traced_bytes is not None


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(CaseResult))
# The columns of whole numbers.
WHOLE: frozenset[str] = frozenset(field.name for field in fields(CaseResult) if field.type in (int, int | None))


def table(lines: Iterable[CaseResult]) -> "pd.DataFrame":
    """The lines as a tidy DataFrame. Columns of whole numbers stay integers, even with missing values."""
    import pandas as pd  # imported here to keep a sweep that only counts its cases fast

    cells = dict(zip(COLUMNS, zip(*map(attrgetter(*COLUMNS), lines), strict=True), strict=False))
    # Without an explicit dtype, pandas would turn counts with gaps into floats and round large numbers.
    whole = {name: pd.array(cells[name], dtype="Int64") for name in WHOLE if name in cells}
    return pd.DataFrame({**cells, **whole}, columns=list(COLUMNS)).convert_dtypes()


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
    "padding_fraction": 0.0,
    "kv_len": 0,
}
_COSTS = ("time_s", "peak_bytes", "flops", "depth", "ops", "min_bytes")
_LEAST: dict[str, int] = dict.fromkeys(("seq_len", "d_model", "num_heads", "batch_size", "threads"), 1)
_TIMES = ("time_s", "time_lo_s", "time_hi_s")


def lines_of_table(table: "pd.DataFrame") -> list[CaseResult]:
    """A line for every row of a tidy table: `summary.csv`, or any table with columns of these names.

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
    table = _under_present_names(table)
    known = [name for name in COLUMNS if name in table.columns]
    bounded = {"time_lo_s", "time_hi_s"} <= set(known)
    found = [_line_of(record, bounded) for record in table[known].astype(object).to_dict("records")]
    seen: set[tuple[Any, ...]] = set()
    for line in found:
        case = tuple(getattr(line, axis) for axis in AXES)
        if case in seen:
            raise UsageError(f"several rows are of {Case(*case)}: choose by the table's other columns first")
        seen.add(case)
    return found


def _under_present_names(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with the present names of columns and statuses."""
    for name in [name for name in table.columns if name in FORMER and FORMER[name][0] not in table.columns]:
        new, convert = FORMER[name]
        table = table.assign(**{name: [convert(value) for value in table[name].astype(object)]})
        table = table.rename(columns={name: new})
    return table.assign(status=table["status"].replace(STATUSES)) if "status" in table.columns else table


def _line_of(record: Mapping[Any, Any], bounded: bool) -> CaseResult:
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
    return CaseResult(**values)


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
