"""Convert the row of a timed trial to a `Trial`, or to a compact array of numbers.

A large run has a million of these arrays.
"""

import math
from array import array
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from harness.stats.trials import Trial

# Columns that have the same name in the row; NaN if the value is missing or infinite.
_RECORDED = (
    "minor_faults",
    "major_faults",
    "involuntary_switches",
    "cpu_s",
    "sampling_s",
    "steal_ticks",
    "machine_ticks",
    "cpu_mhz",
    "sm_clock_mhz",
    "compile_s",
    "host_bound",
    "wall_call_s",
)
# The numbers kept of a trial. `value_s` and `median_s` are the fastest and the median sample, in seconds per call.
# `calls` is the number of calls in all samples.
RECORD = ("value_s", "median_s", "wall_s", "pulse_s", "calls", *_RECORDED)
# No call takes less than a millionth of a nanosecond or more than a century, so other numbers are damaged.
_SHORTEST_S, _LONGEST_S = 1e-15, 3e9


def trial_of(row: Mapping[str, Any]) -> Trial:
    """The trial in a timed row. Raises KeyError for any other row."""
    samples_s = row["samples_s"]
    return Trial.of(min(samples_s), median(samples_s), row["wall_s"], row["pulse_s"])


def record_of(row: Mapping[str, Any]) -> "array[float] | None":
    """The numbers of `RECORD`. Return None if a required value is missing or invalid.

    Required are `samples_s`, `wall_s` and `pulse_s`; `pulse_s` may be null. `calls_per_sample` defaults to 1.
    """
    samples, wall_s, pulse_s = row.get("samples_s"), row.get("wall_s"), row.get("pulse_s", math.nan)
    if type(samples) is not list or not samples or wall_s is None:
        return None
    get = row.get
    try:
        ordered = array("d", samples)
        np.frombuffer(ordered).sort()  # in place; NaN is sorted last
        if not (ordered[0] > _SHORTEST_S and ordered[-1] < _LONGEST_S and 0 < wall_s < _LONGEST_S):
            return None
        if not (pulse_s is None or 0 < pulse_s < math.inf):
            return None
        number = len(ordered)
        median_s = (ordered[(number - 1) // 2] + ordered[number // 2]) / 2
        calls = number * get("calls_per_sample", 1)
        recorded = [value if value is not None and math.isfinite(value) else math.nan for value in map(get, _RECORDED)]
        return array("d", [ordered[0], median_s, wall_s, math.nan if pulse_s is None else pulse_s, calls, *recorded])
    except (TypeError, OverflowError):  # not a number, or too large for a float
        return None
