"""The table of result columns: what `summary.csv` holds of each case, with units, sources and descriptions.

All that depends on the columns derives from it: reading of rows, combination of trials, `summary.csv`, exports, the
gate's counts, the facts of the pytest plugin, and docs/reference/columns.md. A new column is a field of `CaseResult`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np

from harness.core.model import own_axes
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.polynomial import OwnSize
from harness.core.model.sweep_axes import AXES, DEFAULTS, STATUSES, Case, Setting

if TYPE_CHECKING:
    import pandas as pd

# The number of different sizes of blocks that are recorded of a call, the largest ones.
RECORDED_SIZES = 8


@dataclass(frozen=True)
class Column:
    """One column of the table of results.

    - `type`: of its values, where there is one.
    - `unit`: an SI unit, `B`, or 1 for a count; empty for texts and flags.
    - `fact`: the facts row of a case holds the value under the same name.
    - `each`: the entry of a timed row that holds the value of one trial, which has the same name as a rule, or two
      entries whose ratio it is.
    - `combined`: how the values of all trials become one: their `median` or `mean`, the `total` of both entries of the
      ratio, or what holds for the `majority`.
    - `exact`: the value repeats exactly, so that a baseline holds it. `gated`: what `check` calls it when it judges it.
    - `about`: one line that describes it.
    """

    name: str
    type: type
    unit: str = ""
    fact: bool = False
    each: tuple[str, ...] = ()
    combined: str = ""
    exact: bool = False
    gated: str = ""
    about: str = ""


def _column(about: str, unit: str = "", combined: str = "", each: tuple[str, ...] = (), **more: Any) -> Any:
    """A field of `CaseResult`. Its metadata are the fields of its `Column`: `each` of one entry may be left out."""
    return field(metadata={"about": about, "unit": unit, "combined": combined, "each": each, **more})


def _fact(about: str, unit: str = "", gated: str = "") -> Any:
    return _column(about, unit, fact=True, exact=bool(unit), gated=gated)


def _unheld(about: str, unit: str) -> Any:
    """A fact that no baseline holds."""
    return _column(about, unit, fact=True)


@dataclass(frozen=True, kw_only=True)
class CaseResult(Case):
    """A case and its results. None marks a missing value."""

    family: str = _column("the part of the layer's name before the dot, or the attribute `family` of your own layer")
    status: str = _column("`ok`, or what went wrong")
    reason: str | None = _column("why it went wrong")
    time_s: float | None = _column("the time of one call", "s")
    time_lo_s: float | None = _column("the lower end of its 95 % confidence interval", "s")
    time_hi_s: float | None = _column("the upper end; empty if the interval has none", "s")
    time_median_s: float | None = _column("the median over all trials", "s")
    trials: int = _column("the number of timed trials", "1")
    stop_reason: str | None = _column(
        "why timing ended: `precise`, `max_rounds`, `time_limit`, `disturbed` (the machine was slow in nearly all "
        "trials), `interrupted` or `failed`"
    )
    peak_bytes: int | None = _fact(
        "the peak of one call beyond weights and inputs, exact to the byte; unknown if the layer also allocates "
        "outside torch",
        "B",
        "peak memory",
    )
    peak_resident_bytes: int | None = _unheld("the same peak as the kernel sees it", "B")
    peak_traced_bytes: int | None = _unheld("the part of the peak that torch's allocator handed out", "B")
    tokens_per_s: float | None = _column("tokens per second at `time_s`, without padding", "token/s")
    flops: int | None = _fact(
        "exact work, a multiply-add being 2; for fused kernels, the work that a causal mask leaves", "FLOP", "flops"
    )
    flops_full: int | None = _fact("the work without a mask", "FLOP", "flops without a mask")
    ops: int | None = _fact("dispatched operations, views included", "1", "operations")
    depth: int | None = _fact("the longest chain of operations that wait for each other", "1", "depth")
    depth_declared: int | None = _fact("the part of the depth that opaque kernels declare", "1")
    min_bytes: int | None = _fact("the least traffic with memory", "B")
    weights_bytes: int | None = _fact(
        "parameters, buffers, tensors in other attributes, and packed weights such as quantized ones", "B", "weights"
    )
    inputs_bytes: int | None = _fact("inputs, masks, caches and states", "B")
    saved_bytes: int | None = _fact("the part of the peak that the forward pass keeps for the backward pass", "B")
    transient_bytes: int | None = _fact("the rest of the peak", "B")
    backend: str | None = _fact(
        "the kernel that ran: `flash`, `math`, `efficient`, `cudnn`, `oneDNN`, `ATen loop` or `ATen`"
    )
    compile_s: float | None = _column("the time to compile the layer, in a trial of its own", "s", "median")
    minor_faults_per_call: float | None = _column("page faults", "1/call", "median", ("minor_faults", "calls"))
    involuntary_switches: float | None = _column("context switches", "1/trial", "mean")
    cpu_over_wall: float | None = _column("CPUs used", "1", "median", ("cpu_s", "sampling_s"))
    steal_share: float | None = _column(
        "the share of the time that the hypervisor took", "1", "total", ("steal_ticks", "machine_ticks")
    )
    bimodal: bool | None = _column("whether the trials form two groups of times")
    sm_clock_mhz: float | None = _column("a GPU's clock", "MHz", "median")
    flops_claimed: int | None = _unheld("the work that the layer claims", "FLOP")
    flops_per_byte: float | None = _column("the arithmetic intensity, `flops / min_bytes`", "FLOP/B")
    backend_fallback: str | None = _fact("why no faster kernel ran, if one was allowed")
    facts_unknown: str | None = _column("why facts are missing, such as a kernel without a formula")
    bimodal_fast_s: float | None = _column("the time of the fast group", "s")
    bimodal_slow_s: float | None = _column("the time of the slow group", "s")
    bimodal_cause: str | None = _column("what distinguishes the slow group")
    host_bound: bool | None = _column(
        "on a GPU: whether calls back to back take longer than their work, so that the GPU waits for the host",
        combined="majority",
    )
    wall_call_s: float | None = _column("on a GPU: the time of a call among calls back to back", "s", "median")
    claims: str | None = _fact("the claims of your own layer, as JSON")
    host: str | None = _column("the machines that timed the case, separated by commas")
    probe_s: float | None = _column("the time of the reference workload beside the trials that count", "s", "median")
    disturbed_share: float | None = _column("the share of the trials during which the machine was slow, by the probe")
    mapped_bytes: int | None = _unheld(
        "the bytes of the blocks that every call maps anew, so that each page faults: blocks of 32 MiB and more, of "
        "128 KiB and more with `allocator=fresh`, and none with `allocator=steady`; unknown on a GPU, or if the layer "
        "also allocates outside torch",
        "B",
    )
    block_sizes: str | None = _fact(
        "the sizes in bytes of the blocks that a call allocates, each with the number of blocks, as JSON: the largest "
        "eight sizes"
    )
    page_fault_s: float | None = _unheld("the time of one page fault beside the facts: 4 KiB of new memory", "s")
    time_in_law_s: float | None = _column(
        "the time as the trials of the case and the cost model of the layer tell it together, for comparisons between "
        "layers; empty if the model says nothing about it",
        "s",
    )
    time_in_law_lo_s: float | None = _column("the lower end of its 95 % interval", "s")
    time_in_law_hi_s: float | None = _column("the upper end", "s")
    head_dim: int | None = _column("the width of one head, `d_model / num_heads`; empty for a layer without heads", "1")
    tflops_per_s: float | None = _column("the speed at `time_s`: `flops` per second", "TFLOP/s")
    gb_per_s: float | None = _column(
        "the least traffic per second, `min_bytes / time_s`: at least so much moves", "GB/s"
    )
    of_peak: float | None = _column("the speed as a share of the calibrated peak of matrix products in this dtype", "1")
    ratio: float | None = _column("`time_s` over that of the layer `baseline=LAYER` at the same sizes", "1")
    ratio_lo: float | None = _column(
        "the lower end of its 95 % confidence interval, from the intervals of both times as of independent ones; empty "
        "if a time has no interval",
        "1",
    )
    ratio_hi: float | None = _column("the upper end", "1")
    gpu_time_by: str | None = _column(
        "on a GPU: how `time_s` leaves launches out: `held` or `graph`. If a layer needs a graph at one size, its "
        "graphs count at all sizes. A size without a graph stays `held`, because it has few launches or no graph was "
        "possible. Without either, `time_s` is empty, and `wall_call_s` is the time that is known"
    )
    queue_held: float | None = _column(
        "on a GPU: the share of samples whose launches were all enqueued before the first began", "1", "mean"
    )
    graph_s: float | None = _column("on a GPU: the time of a call replayed as a CUDA graph", "s", "median")
    hot_gpu_s: float | None = _column(
        "on a GPU: the time of its work with a warm cache, without launches", "s", "median"
    )
    clean_gpu_s: float | None = _column("on a GPU: as `time_s`, from a cold cache without dirty lines", "s", "median")
    host_s: float | None = _column("on a GPU: the time in which the host launches a call", "s", "median")
    energy_j: float | None = _column("on a GPU: the energy of a call that does not wait for the host", "J", "median")
    throttled_share: float | None = _column(
        "on a GPU: the share of samples left out because the clock rate was lowered", "1", "mean"
    )
    sustained_s: float | None = _column(
        "on a GPU: the time of a call at the end of half a second of calls back to back, at the clock rate that power "
        "and heat then allow; unknown if it waits for the host",
        "s",
        "median",
    )
    sustained_of_peak: float | None = _column(
        "on a GPU: the speed at `sustained_s` as a share of the calibrated sustained peak in this dtype", "1"
    )
    gpu_disturbed_share: float | None = _column(
        "on a GPU: the share of trials beside other processes that compute, or with a clock rate lowered by heat or a "
        "fault; they count as disturbed",
        "1",
        "mean",
        ("gpu_disturbed",),
    )
    prepare_s: float | None = _column("the time of the layer's `prepare`, which is no part of `time_s`", "s", "median")
    threads_after: float | None = _column(
        "CPU time of threads after a call, over the time of the call or watched", "1", "median"
    )
    suspect: str | None = _column(
        "why `time_s` cannot be right, or not be compared: the case then has no rank, and is compared with no other"
    )
    output_error: float | None = _unheld(
        "the RMS error of the output against the reference in float64, as a share of the output's RMS, at the size "
        "that is timed",
        "1",
    )
    output_error_max: float | None = _unheld("the largest error of the output, as a share of its RMS", "1")
    gradient_error: float | None = _unheld(
        "the RMS error of the worst gradient, as a share of that gradient's RMS", "1"
    )
    gradient_error_max: float | None = _unheld("the largest error of a gradient, as a share of its RMS", "1")
    error_ratio: float | None = _unheld(
        "the error over that of the plain layer, which is the reference in the same dtype: of the output, or of the "
        "gradients if that is more; empty in float64 and without a reference",
        "1",
    )
    accuracy_by: str | None = _fact(
        "which outputs were compared with which reference: `64 rows`, `all tokens`, `first 1024 tokens`, `first "
        "1024 tokens and the last 16` or `last token`; `facts_unknown` says why none were"
    )
    lengths_as: str | None = _fact(
        "how sequences of unequal lengths reach the layer: `padded`, `packed`, `nested` or `paged`; empty if all have "
        "n tokens and the layer packs none"
    )
    real_tokens: int | None = _unheld("the tokens of the batch without padding", "token")
    padding_share: float | None = _unheld("the share of the tokens passed to the layer that is padding", "1")
    sequence_lengths: str | None = _fact("the length of each sequence, separated by commas")
    own_axes: str | None = _fact(
        "the own axes of the layer that are sizes, each with its letter in cost models and its default, as JSON"
    )
    graph_note: str | None = _column("on a GPU: why a CUDA graph of the call was not timed, if that was tried")
    allowed_error: float | None = _unheld("how far the output of an approximation may be off", "1")
    first_call_bytes: int | None = _unheld(
        "the part of the peak that the first call has made and that stays, such as a table or a workspace", "B"
    )
    kept_bytes: int | None = _fact(
        "the bytes that a further call keeps beyond its results, the mean of 8: a leak", "B", "memory kept by each call"
    )
    read_bytes: int | None = _unheld("the part of `min_bytes` that is surely read of what existed before", "B")

    @property
    def case(self) -> Case:
        """The case alone, without sizes along own axes that are the default."""
        return Case(**{**self.as_dict(), "options": own_axes.without_default_sizes(self.own_axes, self.options)})

    @property
    def is_finished(self) -> bool:
        """Whether the case needs no more trials."""
        return self.stop_reason != "interrupted"

    @property
    def own_size(self) -> OwnSize:
        """The sizes along the layer's own axes, and of the source, by letter."""
        return own_axes.sizes_of(self, self.own_axes)

    @property
    def size(self) -> tuple[int, int, int, int, OwnSize]:
        """The size in a cost model: n, d, h, b, and along the layer's own axes."""
        return self.seq_len, self.d_model, self.num_heads, self.batch_size, self.own_size

    @property
    def sequence_size(self) -> tuple[int, int, int, int, OwnSize]:
        """The size of one sequence, in the order of `size`."""
        return self.seq_len, self.d_model, self.num_heads, 1, self.own_size

    @property
    def series(self) -> Setting:
        """The setting of the cases that are compared with this one: sizes along own axes are none of it."""
        return Setting.of(self)._replace(options=own_axes.other_options(self.own_axes, self.options))

    @property
    def law_setting(self) -> Setting:
        """The setting of the cases that share a cost model with this one: the length of a source is none of it."""
        return self.series.of_any_source

    @property
    def best_known_time(self) -> tuple[float, float, float] | None:
        """The time in seconds and its 95 % interval: with the cost model if it says anything, otherwise alone.

        Without an interval, it reaches from 0 to infinity. A suspect time is not known.
        """
        if self.time_s is None or self.suspect is not None:
            return None
        if self.time_in_law_s is not None and self.time_in_law_lo_s is not None and self.time_in_law_hi_s is not None:
            return self.time_in_law_s, self.time_in_law_lo_s, self.time_in_law_hi_s
        if self.time_lo_s is None or self.time_hi_s is None:
            return self.time_s, 0.0, math.inf
        return self.time_s, self.time_lo_s, self.time_hi_s

    @property
    def allocates_outside_torch(self) -> bool:
        """Whether torch traced only a part of the peak memory, so that `peak_traced_bytes` is a lower bound."""
        return self.peak_bytes is None and self.peak_traced_bytes is not None


def _table() -> dict[str, Column]:
    hints = get_type_hints(CaseResult)
    columns = {}
    for name, of_class in CaseResult.__dataclass_fields__.items():
        # `T | None` has the type T.
        kind = (get_args(hints[name]) or (hints[name],))[0]
        described = dict(of_class.metadata)
        if name in AXES:
            described = {"unit": AXES[name].unit, "about": AXES[name].help}
        if kind in (int, float):
            described["unit"] = described.get("unit") or "1"
        if described.get("combined"):
            described["each"] = described["each"] or (name,)
        columns[name] = Column(name, kind, **described)
    return {name: columns[name] for name in dict.fromkeys(["impl", "family", *AXES, *columns])}


# The table of columns, in their order.
COLUMNS = _table()
# Exact facts of a call, which a facts row holds under the same names.
FACT_COLUMNS = tuple(name for name, column in COLUMNS.items() if column.fact)
# Results that are numbers, and those that are taken before a case can fail in a timed trial.
_NUMBERS = [name for name, column in COLUMNS.items() if column.type is not str and name not in (*AXES, "trials")]
_TAKEN_BEFORE = (*FACT_COLUMNS, "compile_s")
# Whole numbers that repeat exactly, which a baseline holds: counts, then bytes.
_EXACT = (name for name, column in COLUMNS.items() if column.exact)
COUNTS = tuple(sorted(_EXACT, key=lambda name: COLUMNS[name].unit == "B"))


def table(lines: Sequence[CaseResult]) -> "pd.DataFrame":
    """The lines as a tidy DataFrame. Columns of whole numbers stay integers, even with missing values.

    Own axes that vary have columns of their own names, after all others.
    """
    import pandas as pd  # imported here to keep a sweep that only counts its cases fast

    cells = {name: list(map(attrgetter(name), lines)) for name in COLUMNS}
    sizes_of_lines = [own_axes.sizes_by_name(line.own_axes, line.options) for line in lines]
    for name in own_axes.varied_axes(lines):
        cells[f"layer.{name}" if name in COLUMNS else name] = [sizes.get(name) for sizes in sizes_of_lines]
    # Without an explicit dtype, pandas would turn counts with gaps into floats and round large numbers.
    whole = {name: pd.array(cells[name], dtype="Int64") for name, column in COLUMNS.items() if column.type is int}
    return pd.DataFrame(cells | whole).convert_dtypes()


# Default values of columns that the table lacks.
_ASSUMED = {**DEFAULTS, "impl": "layer", "d_model": 1, "num_heads": 1, "status": "ok", "trials": 1}
_COSTS = ("time_s", "peak_bytes", "flops", "depth", "ops", "min_bytes")
_ENDS = ("time_lo_s", "time_hi_s")
# No call takes less than a millionth of a nanosecond. The remainder of a peak may be negative.
SHORTEST_S = 1e-15
_TIMES = dict.fromkeys(("time_s", "probe_s"), SHORTEST_S)
_LEAST = {axis: of.least for axis, of in AXES.items()} | {"transient_bytes": -math.inf} | _TIMES


def lines_of_table(table: "pd.DataFrame") -> list[CaseResult]:
    """A line for every row of a tidy table. Raises UsageError like `records_of_table` and `lines_of_records`."""
    return lines_of_records(*records_of_table(table))


def records_of_table(table: "pd.DataFrame") -> tuple[list[dict[Any, Any]], bool]:
    """The rows of `summary.csv`, or of any table with columns of these names, and whether times have intervals.

    The table needs `seq_len` and at least one cost. Times are in seconds, and count as exact unless both `time_lo_s`
    and `time_hi_s` are given. Raises UsageError for a missing column.
    """
    if not hasattr(table, "columns") or not hasattr(table, "to_dict"):
        raise UsageError(f"a table is a pandas DataFrame, not a {type(table).__name__}")
    if "seq_len" not in table.columns:
        raise UsageError(f"the table has no column seq_len{did_you_mean('seq_len', [str(c) for c in table.columns])}")
    if not set(_COSTS) & set(table.columns):
        raise UsageError(f"the table has no cost: it needs one column at least of {', '.join(_COSTS)}")
    records = table[[name for name in COLUMNS if name in table.columns]].astype(object).to_dict("records")
    return records, set(_ENDS) <= set(table.columns)


def lines_of_records(records: Iterable[Mapping[Any, Any]], bounded: bool) -> list[CaseResult]:
    """A line for every record, which holds values of some columns. `bounded` tells whether times have intervals.

    Raises UsageError for an invalid size, count or time, or several rows of the same case.
    """
    lines = dict[Case, CaseResult]()
    for record in records:
        line = line_of(record, bounded)
        if lines.setdefault(line.case, line) is not line:
            raise UsageError(f"several rows are of {line.case}: keep one of them, chosen by the other columns")
    return with_own_axes(lines.values())


def evident_line(cells: dict[str, Any]) -> CaseResult:
    """The line with these cells, but without times of a failed case and without any number of an incorrect one.

    Its rates follow from them. The rate of tokens in a padded batch is unknown without its `real_tokens`.
    """
    status = cells["status"]
    for name in _NUMBERS:
        if status == "incorrect" or (status != "ok" and name not in _TAKEN_BEFORE):
            cells[name] = None
    if status != "ok":
        cells["reason"] = cells["reason"] or "no reason was recorded"
    line = CaseResult(**cells)
    tokens = line.real_tokens if line.is_padded and line.mode != "decode" else line.tokens
    rate = tokens / line.time_s if tokens and line.time_s else None
    intensity = line.flops / line.min_bytes if line.flops is not None and line.min_bytes else None
    return replace(line, tokens_per_s=rate, flops_per_byte=intensity)


def with_own_axes(lines: Iterable[CaseResult]) -> list[CaseResult]:
    """The lines, with the last known `own_axes` of each layer: a case whose facts failed has none itself."""
    lines = list(lines)
    axes = {line.impl: line.own_axes for line in lines if line.own_axes}
    return [
        line if line.own_axes == axes.get(line.impl) else replace(line, own_axes=axes.get(line.impl)) for line in lines
    ]


def line_of(record: Mapping[Any, Any], bounded: bool) -> CaseResult:
    """The line with the values of a record. Raises UsageError for an invalid size, count or time."""
    values = dict[str, Any]()
    for name in COLUMNS:
        value = record.get(name)
        missing = value is None or value != value or str(value) in ("<NA>", "NaT")
        values[name] = _ASSUMED.get(name) if missing else _read(name, value)
    if values["seq_len"] is None:
        raise UsageError("a row has no seq_len")
    values["family"] = values["family"] or str(values["impl"]).split(".")[0]
    if not bounded:
        values["time_lo_s"] = values["time_hi_s"] = values["time_s"]
    ends = [values[name] for name in ("time_lo_s", "time_s", "time_hi_s") if values[name] is not None]
    if ends != sorted(ends):
        raise UsageError(f"time_s={values['time_s']} is not within {values['time_lo_s']} to {values['time_hi_s']}")
    return evident_line(values)


def _read(name: str, value: Any) -> Any:
    """The value of a column. Raises UsageError for another type, or a number out of its range."""
    kind, least, most = COLUMNS[name].type, _LEAST.get(name, 0), "to 1" if name.endswith("_share") else "on"
    if kind is str and isinstance(value, str | Real) and (name != "status" or value in STATUSES):
        # Lone surrogates cannot be written to a file. Each becomes a question mark.
        return str(value).encode("utf-8", "replace").decode()
    is_flag = isinstance(value, bool | np.bool_)
    if is_flag is (kind is bool) and issubclass(type(value), Real | np.bool_):
        # The ends of an interval may be infinite.
        fits = value >= least and (value < 2.0**63 or name in _ENDS) and (value <= 1 or most == "on")
        if fits and (kind is not int or value == int(value)):
            return kind(value)
    expected: Any = {str: "a text", int: f"a whole number from {least} on", float: f"a number from 0 {most}"}
    expected |= dict.fromkeys(_TIMES, "a time in seconds from 1e-15 on") | {"status": f"one of {', '.join(STATUSES)}"}
    raise UsageError(f"{name}={value!r} is not {expected.get(name) or expected.get(kind, 'true or false')}")
