"""A timed trial's row, as statistics want it: a `Trial`, or a line of numbers of which a large run has a million."""

import math
from array import array
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from harness.stats.trials import Trial

# Columns that stand in the row under the same name; NaN where it has none, or an infinite one.
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
# What is kept of a trial: of its samples the fastest and the median, seconds a call, and how many calls they span.
RECORD = ("value_s", "median_s", "wall_s", "pulse_s", "calls", *_RECORDED)
# No call takes less than a millionth of a nanosecond or more than a century: such a number is damage.
_SHORTEST_S, _LONGEST_S = 1e-15, 3e9


def trial_of(row: Mapping[str, Any]) -> Trial:
    """The trial that the row of a timed trial holds. Raises KeyError for any other row."""
    samples_s = row["samples_s"]
    return Trial.of(min(samples_s), median(samples_s), row["wall_s"], row["pulse_s"])


def record_of(row: Mapping[str, Any]) -> "array[float] | None":
    """The numbers of `RECORD`; None where the row lacks one of the first five, or has something else in its place."""
    samples, wall_s, pulse_s = row.get("samples_s"), row.get("wall_s"), row.get("pulse_s", math.nan)
    if type(samples) is not list or not samples or wall_s is None:
        return None
    get = row.get
    try:
        ordered = array("d", samples)
        np.frombuffer(ordered).sort()  # in place; what is not a number comes last
        if not (ordered[0] > _SHORTEST_S and ordered[-1] < _LONGEST_S and 0 < wall_s < _LONGEST_S):
            return None
        if not (pulse_s is None or 0 < pulse_s < math.inf):
            return None
        number = len(ordered)
        median_s = (ordered[(number - 1) // 2] + ordered[number // 2]) / 2
        calls = number * get("calls_per_sample", 1)
        recorded = [value if value is not None and math.isfinite(value) else math.nan for value in map(get, _RECORDED)]
        return array("d", [ordered[0], median_s, wall_s, math.nan if pulse_s is None else pulse_s, calls, *recorded])
    except (TypeError, OverflowError):  # something that is no number, or none that could have been read anywhere
        return None
