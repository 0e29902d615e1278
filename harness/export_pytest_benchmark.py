"""Export a run in pytest-benchmark's file format, which `pytest-benchmark compare` and `--benchmark-compare` read.

Each trial is one round. Its value is the trial's fastest sample, in seconds per call. Samples of one trial are not
independent, so counting them as rounds would understate the uncertainty. Trials are independent, and each case has a
few of them.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from harness.case import Case
from harness.errors import UsageError
from harness.export import Exported, as_json, axes_of_line, overrides, plain_cells
from harness.formatting import printable
from harness.results.accumulate_rows import read_run
from harness.results.run_directory import StoredRun
from harness.results.summarise import Trials
from harness.results.table import CaseResult

_LONGEST_LINE = 16 * 2**20


def machine_info(machine: Mapping[str, Any]) -> dict[str, Any]:
    """`machine_info`, with empty texts for what the run does not record."""
    system, _, release = str(machine.get("kernel") or "").partition(" ")
    cpu, torch = _part(machine, "cpu"), _part(machine, "torch")
    model = str(cpu.get("model") or "")
    return {
        "node": str(machine.get("host") or ""),
        "processor": model,
        "machine": "",
        "python_compiler": "",
        "python_implementation": "CPython",
        "python_implementation_version": str(machine.get("python") or ""),
        "python_version": str(machine.get("python") or ""),
        "python_build": ["", ""],
        "release": release,
        "system": system,
        "cpu": {"brand_raw": model, "count": cpu.get("threads")},
        "torch": str(torch.get("version") or ""),
    }


def commit_info(machine: Mapping[str, Any]) -> dict[str, Any]:
    """`commit_info`: the commit of the directory the run was made in, else of this project's checkout."""
    described = str(machine.get("user_commit") or machine.get("project_commit") or "unversioned")
    return {
        "id": described.removesuffix("-dirty"),
        "time": None,
        "author_time": None,
        "dirty": described.endswith("-dirty"),
        "project": "attn-harness",
        "branch": "(unknown)",
    }


def taken_at(stored: StoredRun) -> str:
    """When the run began, in ISO format.

    The time is that of the first row. For a run without rows, it is the time its file was written.
    """
    path = stored.path
    for rows in filter(Path.is_file, sorted((path / "rows").glob("*.jsonl"))):
        with rows.open("rb") as file:
            began = _seconds(file.readline(_LONGEST_LINE))
        if began is not None:
            return began
    kept = path if path.is_file() else path / "summary.csv"
    return _iso(kept.stat().st_mtime if kept.is_file() else path.stat().st_mtime)


def _seconds(line: bytes) -> str | None:
    try:
        return _iso(float(json.loads(line)["at"]))
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None  # an incomplete row, a foreign one, or one from before rows had a time


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _part(machine: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = machine.get(name)
    return part if isinstance(part, Mapping) else {}


# Half the width of a 95 % interval, in standard errors.
_ERRORS = 1.96


def rounds_of(run: Path) -> dict[Case, list[float]]:
    """The value of every trial in a run's rows, by case, in the order they were taken."""
    fold, _ = read_run(run)
    cases = [Case(*axes) for axes in fold.cases]
    found: dict[Case, list[float]] = {}
    every, no_pulse = np.ones(len(cases), dtype=bool), np.full(len(cases), np.nan)
    for group in Trials(fold).groups(every, no_pulse):
        for number, values_s in zip(group.cases.tolist(), group.column("value_s").tolist(), strict=True):
            found[cases[number]] = values_s
    return found


def statistics_of(values_s: Sequence[float]) -> dict[str, Any]:
    """The items of `stats`, in seconds, for at least one round.

    Quartiles and outliers are defined as in pytest-benchmark.
    """
    ordered = sorted(values_s)
    middle, spread = mean(ordered), stdev(ordered) if len(ordered) > 1 else 0.0
    q1, q3 = _quartile(ordered), _quartile(ordered[::-1])
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    beyond_spread = sum(not middle - spread <= value <= middle + spread for value in ordered)
    beyond_fences = sum(not low <= value <= high for value in ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": middle,
        "stddev": spread,
        "rounds": len(ordered),
        "median": median(ordered),
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": beyond_fences,
        "stddev_outliers": beyond_spread,
        "outliers": f"{beyond_spread};{beyond_fences}",
        "ld15iqr": ordered[bisect_left(ordered, low)],
        "hd15iqr": ordered[bisect_right(ordered, high) - 1],
        "ops": len(ordered) / sum(ordered),
        "total": sum(ordered),
        "data": list(values_s),
        "iterations": 1,
    }


def statistics_of_interval(time_s: float, lo_s: float | None, hi_s: float | None, trials: int) -> dict[str, Any]:
    """The same items for a case of which only an estimate and its 95 % interval were kept.

    The estimate is close to the fastest trial's time, so it becomes `min`. For lack of other values it is also `mean`
    and `median`. The `max` is the interval's upper end, or the estimate if it has none. The `stddev` is the spread of
    trials that the interval's width implies.
    """
    hi_s = hi_s if hi_s is not None and time_s <= hi_s < math.inf else time_s
    lo_s = lo_s if hi_s > time_s and lo_s is not None and lo_s <= time_s else time_s
    rounds = max(1, trials)
    return {
        "min": time_s,
        "max": hi_s,
        "mean": time_s,
        "stddev": (hi_s - lo_s) / 2 / _ERRORS * math.sqrt(rounds),
        "rounds": rounds,
        "median": time_s,
        "iqr": hi_s - time_s,
        "q1": time_s,
        "q3": hi_s,
        "iqr_outliers": 0,
        "stddev_outliers": 0,
        "outliers": "0;0",
        "ld15iqr": time_s,
        "hd15iqr": hi_s,
        "ops": 1 / time_s,
        "total": rounds * time_s,
        "iterations": 1,
    }


def _quartile(ordered: Sequence[float]) -> float:
    """The quartile nearer to the start of `ordered`.

    For an even number of values it is the median of the first half, else an interpolation between two values.
    """
    number = len(ordered)
    if number == 1:
        return ordered[0]
    if number % 2 == 0:
        return median(ordered[: number // 2])
    place, left = divmod(number, 4)
    if left == 1:
        return 0.25 * ordered[place - 1] + 0.75 * ordered[place]
    return 0.75 * ordered[place] + 0.25 * ordered[place + 1]


# The version of pytest-benchmark whose file format this follows.
_VERSION = "5.3.1"


def export_pytest_benchmark(stored: StoredRun) -> Exported:
    """Export the cases with a time; a notice counts the others. Raises UsageError if no case has one."""
    timed = [line for line in stored.lines if line.status == "ok" and line.time_s is not None]
    if not timed:
        raise UsageError(f"{stored.path} has no times to export")
    rounds = rounds_of(stored.path) if (stored.path / "rows").is_dir() else {}
    precision = stored.config.get("precision") or {}
    content = {
        "machine_info": machine_info(stored.machine),
        "commit_info": commit_info(stored.machine),
        "benchmarks": [_benchmark(line, rounds.get(line.case, ()), precision) for line in timed],
        "datetime": taken_at(stored),
        "version": _VERSION,
    }
    left = len(stored.lines) - len(timed)
    notices = [f"{left} case{'s' if left > 1 else ''} without a time left out"] if left else []
    return Exported(as_json(content), len(timed), notices)


def _benchmark(line: CaseResult, values_s: Sequence[float], precision: dict[str, Any]) -> dict[str, Any]:
    which = overrides(line)
    name = f"{printable(line.impl)}[{which}]"
    assert line.time_s is not None
    if values_s:
        stats = statistics_of(values_s)
    else:
        stats = statistics_of_interval(line.time_s, line.time_lo_s, line.time_hi_s, line.trials)
    return {
        # Cases that differ only in their layer, or its heads, form a group and are shown side by side.
        "group": overrides(line, without=("num_heads",)),
        "name": name,
        "fullname": f"attn-harness::{name}",
        "params": axes_of_line(line),
        "param": which,
        "extra_info": {**plain_cells(line), "rounds_are": "trials" if values_s else "an interval"},
        "options": {
            "disable_gc": True,
            "timer": "perf_counter",
            "min_rounds": precision.get("min_rounds", stats["rounds"]),
            "max_time": precision.get("case_s"),
            "min_time": precision.get("trial_s"),
            "warmup": True,
        },
        "stats": stats,
    }
