"""A run in the file format of pytest-benchmark.

`pytest-benchmark compare` and `--benchmark-compare` can read the file.
"""

from collections.abc import Sequence
from typing import Any

from harness.errors import UsageError
from harness.exchange.formats import Exported
from harness.exchange.machine_info import commit_info, machine_info, taken_at
from harness.exchange.naming import axes_of, overrides
from harness.exchange.plain import as_json, cells
from harness.exchange.rounds import rounds_of, statistics_of, statistics_of_interval
from harness.report.escaped import printable
from harness.summary import Line
from harness.summary.stored import Stored

# The version of pytest-benchmark whose file format this follows.
_VERSION = "5.3.1"


def export(stored: Stored) -> Exported:
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


def _benchmark(line: Line, values_s: Sequence[float], precision: dict[str, Any]) -> dict[str, Any]:
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
        "params": axes_of(line),
        "param": which,
        "extra_info": {**cells(line), "rounds_are": "trials" if values_s else "an interval"},
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
