"""The schema of a row: the kinds of trials, what each answers, and what later code keeps of a row.

The driver validates answers by this schema, the time limits of trials derive from it, and all rows are read by it. A
row holds the answer of a trial, beside the entries that the driver itself writes (`ROW_ENTRIES`).
"""

import json
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan, ulp
from sys import intern
from typing import Any, NamedTuple

import numpy as np

from harness.core.layers.layer_lookup import indivisible_size
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.layer_options import options_of
from harness.core.model.sweep_axes import AXES, FAILURES, STATUSES, Case
from harness.core.stats.estimate import Trial, value_of_trial

from .columns import COLUMNS, FACT_COLUMNS, SHORTEST_S, CaseResult, line_of

# The entries of a row by name.
StoredRow = Mapping[str, Any]

# Entries that the driver itself writes into each row.
ROW_ENTRIES = ("schema", "host", "key", "case", "purpose", "round", "at", "wall_s", "anew")
# The purpose of a row that makes earlier failures of its case void.
REOPEN = "reopen"

# Entries of a timed row that are kept of each trial; NaN if the value is missing. Beside those of columns,
# two explain bimodal times, and two replace the columns `hot_gpu_s` and `clean_gpu_s` where graphs count.
_OF_COLUMNS = [entry for column in COLUMNS.values() for entry in column.each if entry not in ("calls", "probe_s")]
_RECORDED = tuple(dict.fromkeys((*_OF_COLUMNS, "major_faults", "cpu_mhz", "graph_hot_gpu_s", "graph_clean_gpu_s")))
# The numbers kept of a trial. `value_s` is its value (`value_of_trial`), and `median_s` is its
# median sample, both in seconds per call. On a GPU they are the same.
# `calls` is the number of calls in all samples.
RECORD = ("value_s", "median_s", "wall_s", "probe_s", "calls", *_RECORDED)
_LONGEST_S = 3e9  # no call takes more than a century, so other numbers are damaged
# The cells of a facts row: the exact facts, followed by the reasons for missing ones, joined into one string.
FACTS = (*FACT_COLUMNS, "facts_unknown")
# Whole numbers are stored in eight bytes.
LARGEST = 2**63
# A larger round number would not fit into eight bytes, so it is invalid.
MOST_ROUND = 2**62


class InvalidRow(ValueError):
    """Why a row does not count, in a phrase."""


_INCOMPLETE = "a row without what every row must hold"


# Entries that are at most as large as others of the same row, line or baseline.
_AT_MOST = {
    "flops": "flops_full",
    "depth_declared": "depth",
    "read_bytes": "min_bytes",
    "first_call_bytes": "peak_bytes",
    "peak_traced_bytes": "peak_bytes",
    "steal_ticks": "machine_ticks",
    "bimodal_fast_s": "bimodal_slow_s",
    "output_error": "output_error_max",
    "gradient_error": "gradient_error_max",
    "sampling_s": "wall_s",
    "time_in_law_lo_s": "time_in_law_s",
    "time_in_law_s": "time_in_law_hi_s",
}
# Times and errors are rounded to six digits. Counts are exact.
_ROUNDING = 1e-5


def check_agreement(values: Any) -> None:
    """Raise InvalidRow if numbers of a row, a line or the facts in a baseline contradict each other."""
    for name in sorted(_AT_MOST.keys() & values.keys()):
        value, most = values[name], values.get(_AT_MOST[name])
        if AT_LEAST_0(value) and AT_LEAST_0(most) and value > most + isinstance(value, float) * _ROUNDING * most:
            raise InvalidRow(f"its {name} is more than its {_AT_MOST[name]}")


def check_facts(values: Any) -> None:
    """Raise InvalidRow if facts are not of their types, or contradict each other."""
    if not all(_FACT_CHECKS[name](values.get(name)) for name in FACT_COLUMNS):
        raise InvalidRow("its facts are not of their types")
    check_agreement(values)
    peak, saved, transient = map(values.get, ("peak_bytes", "saved_bytes", "transient_bytes"))
    # A backward pass finds what was saved.
    if None not in (peak, saved, transient) and transient not in (peak, peak - saved):
        raise InvalidRow("its peak_bytes is not the sum of its parts")


def check_case(case: Case, status: str) -> None:
    """Raise InvalidRow or UsageError for an axis or options with an invalid value, or measured heads that do not fit.

    A table without widths has d_model=1.
    """
    for name, axis in AXES.items():
        if not axis.takes(getattr(case, name)):
            raise InvalidRow(f"{name}={getattr(case, name)} is no value of {name}")
    options_of(case.options)
    if reason := indivisible_size(case, status == "ok" and min(case.d_model, case.num_heads) > 1):
        raise InvalidRow(reason)


def add_line(record: StoredRow, bounded: bool, lines: dict[Case, CaseResult | None]) -> Case:
    """Add the line of a record, and return its case. Raises InvalidRow or UsageError if the line cannot be.

    If several lines are of its case, none of them remains. See `line_of` for `bounded`.
    """
    line = line_of(record, bounded)
    check_case(line, line.status)
    if line.time_s is not None and not line.trials:
        raise InvalidRow("its time is of no trials")
    check_facts(vars(line))
    if lines.setdefault(line.case, line) is not line:
        lines[line.case] = None
        raise InvalidRow(f"several rows are of {line.case}: keep one of them, chosen by the other columns")
    return line.case


def trial_of_row(row: StoredRow) -> Trial:
    """The trial in a timed row. Raises InvalidRow for any other row."""
    return trial_of_record(record_of_row(row))


def trial_of_record(record: Sequence[float]) -> Trial:
    """The trial with the numbers of `RECORD`."""
    value_s, median_s, wall_s, probe_s, *_ = record
    is_disturbed = record[RECORD.index("gpu_disturbed")] > 0
    return Trial(value_s, median_s, wall_s, probe_s if probe_s > 0 else None, is_disturbed)


def record_of_row(row: Any) -> "array[float]":
    """The numbers of `RECORD` in a timed row. Raises InvalidRow if they are missing, invalid or contradictory.

    They are in a compact array, because a large run has a million of these arrays. Required are `samples_s`, `wall_s`
    and `probe_s`; `probe_s` may be null. `calls_per_sample` defaults to 1. On the CPU, samples and what lies between
    them (`between_s`) add up to `sampling_s`.
    """
    case = row.get("case")
    device = str(case.get("device", "cpu")) if isinstance(case, Mapping) else "cpu"
    samples, wall_s, calls = row.get("samples_s"), row.get("wall_s"), row.get("calls_per_sample", 1)
    entries = (row.get("probe_s", -1), row.get("sampling_s"), row.get("between_s"), *map(row.get, _RECORDED))
    try:
        times_s = np.frombuffer(array("d", samples))
        ordered = np.sort(times_s)  # NaN is sorted last
        numbers = array("d", [nan if value is None else value for value in entries])
        probe_s, sampling_s, between_s, *recorded = numbers
        are_times = ordered[0] > SHORTEST_S and ordered[-1] < _LONGEST_S and 0 < wall_s < _LONGEST_S
        are_counts = POSITIVE(calls) and not any(number < 0 or number >= LARGEST for number in numbers)
        are_in_bounds = LIST(samples) and are_times and are_counts and not 0 <= probe_s < SHORTEST_S
    except (TypeError, ValueError, IndexError, OverflowError):  # not numbers, none, or too large for a float
        are_in_bounds = False
    if not are_in_bounds:
        raise InvalidRow("its samples, or what was counted beside them, are not numbers in their bounds")
    unsampled_s, slack_s = sampling_s - calls * sum(samples), _ROUNDING * sampling_s
    on_cpu = device == "cpu" and "queue_held" not in row
    if on_cpu and (unsampled_s < -slack_s or abs(unsampled_s - between_s) > slack_s):
        raise InvalidRow("its samples do not add up to its sampling_s")
    check_agreement(row)
    value_s, number = value_of_trial(times_s, device), len(ordered)
    median_s = value_s if device != "cpu" else (ordered[(number - 1) // 2] + ordered[number // 2]) / 2
    return array("d", [value_s, median_s, wall_s, probe_s, number * calls, *recorded])


def facts_of_row(row: StoredRow) -> tuple[Any, ...]:
    """The cells of `FACTS`, with None for each that the row lacks. Raises InvalidRow if any value is invalid."""
    unknown = row.get("facts_unknown", [])
    if not _every(TEXT)(unknown):
        raise InvalidRow("its facts are not of their types")
    check_facts(row)
    return *map(row.get, FACT_COLUMNS), "; ".join(unknown) or None


class Row(NamedTuple):
    """What is kept of one row, besides its case. `purpose` is the kind of its trial, `REOPEN` or `plan`.

    `value` is what later code needs of a successful trial: the `RECORD` of a timed one, the cells of `FACTS`, or the
    compile time in seconds. Of a failed trial, it is the layer's `own_axes` or None. `anew` tells that earlier trials
    of the case do not count.
    """

    family: str
    purpose: str
    round: int
    status: str
    reason: str | None
    at: float | None
    anew: bool
    value: Any


def row_of(case: Case, family: str, purpose: str, outcome: StoredRow, number: int = 0) -> StoredRow:
    """The row of a trial in round `number`. `outcome` holds the entries of its outcome, with its status and reason.

    Whoever stores the row adds `schema` and `host`.
    """
    return {
        "key": case.key,
        "case": case.as_dict(),
        "family": family,
        "purpose": purpose,
        "round": number,
        "at": round(time.time(), 3),
        **outcome,
    }


def read_row(row: Any) -> Row:
    """Read a row. Raises InvalidRow if values are missing, invalid or contradictory; the case is left to the caller.

    Every row names its family, its purpose, its round and its status. All but successful timed rows have a reason,
    which may be null.
    """
    family, purpose, number, status, reason, at = map(row.get, ("family", "purpose", "round", "status", "reason", "at"))
    is_ok = status == "ok"
    has_reason = "reason" in row and isinstance(reason, str | None)
    is_named = type(family) is type(purpose) is type(status) is str and type(number) is int and status in STATUSES
    axes = None if is_ok else row.get("own_axes")
    is_whole = is_named and isinstance(at, int | float | None) and (has_reason or (is_ok and purpose == "time"))
    if not (is_whole and abs(number) <= MOST_ROUND and _FACT_CHECKS["own_axes"](axes)):
        raise InvalidRow(_INCOMPLETE)
    value = axes and intern(axes)
    if is_ok and purpose in KINDS:
        if reason is not None:
            raise InvalidRow("it is ok, and has a reason why it failed")
        read_value = KINDS[purpose].value
        value = read_value and read_value(row)
        if read_value and value is None:
            raise InvalidRow(_INCOMPLETE)
    # Every parsed row brings its own strings; interning keeps one copy of equal ones.
    family, purpose, status = intern(family), intern(purpose), intern(status)
    return Row(family, purpose, number, status, reason, at, bool(row.get("anew")), value)


Check = Callable[[Any], bool]


def _of_type(kind: type) -> Check:
    return lambda value: type(value) is kind


def _number(least: float = -inf, types: tuple[type, ...] = (int, float)) -> Check:
    """A check for finite numbers from `least` on, of these types. Whole numbers must fit into eight bytes."""
    return lambda value: (
        type(value) in types and value >= least and abs(value) < (LARGEST if type(value) is int else inf)
    )


def none_or(fits: Check) -> Check:
    return lambda value: value is None or fits(value)


def _every(fits: Check) -> Check:
    return lambda value: LIST(value) and all(map(fits, value))


def list_of(fits: Check) -> Check:
    return lambda value: value != [] and _every(fits)(value)


def _row_of(*cells: Check) -> Check:
    return lambda value: (
        LIST(value) and len(value) == len(cells) and all(fits(cell) for fits, cell in zip(cells, value, strict=True))
    )


def rows_of(*cells: Check) -> Check:
    return _every(_row_of(*cells))


# A claim or a list of block sizes has some hundred characters.
_LONGEST_JSON = 4000


def _json_of(fits: Check) -> Check:
    """A check for None, or text that is JSON, not very long or deep, whose content fits."""

    def is_json(text: Any) -> bool:
        try:
            return len(text) <= _LONGEST_JSON and fits(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return False

    return none_or(is_json)


def texts_by_name(value: Any) -> bool:
    """Whether it is an object with text alone."""
    return type(value) is dict and all(map(TEXT, value.values()))


TEXT, FLAG = _of_type(str), _of_type(bool)
COUNT, _whole = _number(0, (int,)), _number(types=(int,))
FINITE, AT_LEAST_0, POSITIVE = _number(), _number(0), _number(ulp(0.0))
OBJECT, LIST = _of_type(dict), _of_type(list)
_OF_TYPES = {str: TEXT, int: COUNT, float: AT_LEAST_0}
_FACT_CHECKS = {name: none_or(_OF_TYPES[COLUMNS[name].type]) for name in FACT_COLUMNS} | {
    "transient_bytes": none_or(_whole),  # the remainder of a peak may be negative
    "block_sizes": _json_of(rows_of(COUNT, COUNT)),
    "claims": _json_of(texts_by_name),
    "own_axes": _json_of(lambda value: OBJECT(value) and rows_of(TEXT, POSITIVE)([*value.values()])),
}


@dataclass(frozen=True)
class TrialKind:
    """The trials of one purpose.

    - `entries`: the entries of a successful answer with their checks. Entries that may be None may also be missing.
    - `value`: what is kept of a row of this kind. It returns None or raises InvalidRow for an invalid row.
    - `is_timed`: the trial loads the code that an earlier trial of the case compiled.
    - `calls_layer`: the trial calls the layer, with the code that earlier trials of the case compiled.
    - `once`: a case is measured once.
    - `handler`: the `module:function` that the trial's process calls, with the entries of the request that it `takes`.
      A trial about the machine has no case. One with a seed builds the layer, and gets more time if that compiles.
    """

    entries: Mapping[str, Check]
    value: Callable[[StoredRow], Any] | None = None
    is_timed: bool = False
    calls_layer: bool = False
    once: bool = False
    handler: str = ""
    takes: tuple[str, ...] = ("case", "seed")


_CASE = ("case",)
KINDS = {
    "machine": TrialKind(
        {"harness": none_or(TEXT), "version": TEXT, "gpu": none_or(TEXT)},
        handler="harness.core.trial.trial_kinds:describe_torch",
        takes=("modules",),
    ),
    "describe": TrialKind(
        {
            "import_s": AT_LEAST_0,
            **dict.fromkeys(("forkable", "has_heads", "compiled"), FLAG),
            "family": TEXT,
            **dict.fromkeys(("refused", "file"), none_or(TEXT)),
            "files": texts_by_name,
            "imports": none_or(list_of(TEXT)),
        },
        handler="harness.core.trial.described_layer:describe_layer",
        takes=_CASE,
    ),
    "verify": TrialKind(
        {
            "against": TEXT,
            "tolerance": AT_LEAST_0,
            **dict.fromkeys(("output_error", "gradient_error", "gradient_tolerance"), none_or(AT_LEAST_0)),
            "compiled": none_or(FLAG),
        },
        calls_layer=True,
        handler="harness.core.trial.verify:verify",
    ),
    "reference": TrialKind({"projections": list_of(FINITE)}, handler="harness.core.trial.verify:project_reference"),
    "compile": TrialKind(
        {"compile_s": AT_LEAST_0, "graphs": COUNT, "graph_breaks": COUNT},
        lambda row: row.get("compile_s") if AT_LEAST_0(row.get("compile_s")) else None,
        calls_layer=True,
        once=True,
        handler="harness.core.trial.compilation:measure_compilation",
    ),
    "facts": TrialKind(
        _FACT_CHECKS | {"inputs_bytes": COUNT},
        facts_of_row,
        calls_layer=True,
        once=True,
        handler="harness.core.trial.trial_kinds:count_facts",
    ),
    "time": TrialKind(
        {
            "samples_s": list_of(POSITIVE),
            "calls_per_sample": POSITIVE,
            "probe_s": none_or(POSITIVE),
            "clock_s": AT_LEAST_0,
        },
        record_of_row,
        is_timed=True,
        calls_layer=True,
        handler="harness.core.trial.timing.timed_trial:measure_time",
        takes=("case", "seed", "trial_s", "check_last_call"),
    ),
    "probe": TrialKind({"probe_s": POSITIVE}, handler="harness.core.trial.timing.timed_trial:probe_of", takes=_CASE),
    "flops": TrialKind(
        {"flops_per_s": POSITIVE, "size": COUNT},
        handler="harness.core.trial.peak_rates:take_flops",
        takes=("case", "trial_s", "memory_limit", "with_sustained"),
    ),
    "bandwidth": TrialKind(
        {"bandwidth_bytes_per_s": POSITIVE},
        handler="harness.core.trial.peak_rates:take_bandwidth",
        takes=("case", "trial_s", "memory_limit", "most_bytes", "with_sustained"),
    ),
    "describe_page": TrialKind(
        {
            **dict.fromkeys(("call", "summary", "equation", "family", "reference", "place"), TEXT),
            **dict.fromkeys(("has_heads", "causal", "compiled"), FLAG),
            "claims": texts_by_name,
            "axes": rows_of(TEXT, TEXT, lambda value: type(value) in (int, float, bool, str, type(None))),
            "inputs": rows_of(TEXT, TEXT, TEXT),
            **dict.fromkeys(("modes", "masks", "takes"), LIST),
        },
        handler="harness.core.trial.described_layer:describe_page",
        takes=_CASE,
    ),
    "refusals": TrialKind(
        {"refusals": list_of(none_or(_row_of(FAILURES.__contains__, TEXT)))},
        handler="harness.core.trial.trial_kinds:refusals",
        takes=("case", "cases"),
    ),
}


def kind_of(purpose: str) -> TrialKind:
    """Return the kind of trial. Raises KeyError if there is none."""
    if purpose in KINDS:
        return KINDS[purpose]
    return referenced(dict(entries("TRIAL_KINDS"))[purpose])


# Entries of every answer, and those kept from the answer of a failed trial.
OF_ALL = {"reason": none_or(TEXT)}
OF_FAILURES = {"status": TEXT, "reason": TEXT, "traceback": none_or(TEXT)}
