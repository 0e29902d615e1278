"""Export a run to other tools' formats: tables, benchmarks of CI, and viewers of kernel benchmarks.

Other tools keep a history by a case's name, so a name must not change when an axis is added. Sizes are always part of
it. Other axes are part of it only if they differ from their defaults. All are written as on the command line of
`sweep`.
"""

import io
import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness import __version__
from harness.core.config.machine import Machine, part
from harness.core.model import file_io, formatting
from harness.core.model.errors import UsageError
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.sweep_axes import AXES, DEFAULTS, Case
from harness.core.results.columns import COLUMNS, CaseResult, table
from harness.core.results.stored_run import StoredRun
from harness.core.run.scheduler import read_resume_state
from harness.core.stats.interval import NORMAL
from harness.extras import Exported, began, export_by_template, known_columns
from harness.study.laws.roofline import roofs, with_suspects

# The ending of each format's files, and what writes it.
FORMATS = {name: (ending, place) for name, ending, place in entries("FORMATS")}
# Their functions also take the lines of the cases that the user chooses.
OF_CASES = ("script", "kernelbench", "flashinfer-definition")


def export(stored: StoredRun, name: str, cases: Sequence[str] = ()) -> Exported:
    """Export the run, or the cases that some texts describe, to the format. Raises UsageError if it has none."""
    if not stored.lines:
        raise UsageError(f"{stored.path} has no rows to export")
    judged = replace(stored, lines=with_suspects(stored.lines, roofs(stored.machine)))
    write = referenced(FORMATS[name][1])
    if name not in OF_CASES:
        return Exported(*write(judged))
    chosen = referenced("harness.extras.export.script:chosen")
    return Exported(*write(judged, [chosen(judged, text) for text in cases or [""]]))


def _completed(stored: StoredRun) -> list[CaseResult]:
    """The lines as `summary.csv` has them."""
    from harness.study.complete_lines import complete_lines  # loads what fits cost models

    return complete_lines(stored.lines, stored.machine, stored.config.get("baseline"))[0]


def _as_json(data: Any) -> bytes:
    """The data as indented ASCII JSON. Raises ValueError for an infinity or NaN."""
    return json.dumps(data, indent=2, allow_nan=False).encode("ascii") + b"\n"


def _left_out(stored: StoredRun, kept: Sequence[CaseResult], why: str) -> list[str]:
    """A sentence about the cases that are not among those kept; none if there are no such cases."""
    left = len(stored.lines) - len(kept)
    return [f"{formatting.counted(left, 'case')} {why} left out"] if left else []


_SIZES = ("seq_len", "d_model", "num_heads")


def overrides(line: CaseResult, without: Collection[str] = ()) -> str:
    """The axes that tell the case from others of its impl: `seq_len=64 d_model=128 num_heads=2 mode=train`."""
    axes = line.case.as_dict()
    named = [axis for axis in AXES if axis in _SIZES or (axis != "impl" and axes[axis] != DEFAULTS[axis])]
    return formatting.printable(" ".join(f"{axis}={axes[axis]}" for axis in named if axis not in without))


def export_csv(stored: StoredRun) -> Exported:
    """Export every case, failed ones included. Raises UsageError if a count exceeds 64 bits."""
    try:
        text = file_io.to_csv(table(_completed(stored)), "%.6g")
    except (OverflowError, TypeError) as error:
        raise UsageError(f"{stored.path}: a count is beyond 64 bits and fits into no table") from error
    return Exported(text.encode("utf-8", "backslashreplace"), len(stored.lines))


def export_parquet(stored: StoredRun) -> Exported:
    """Export every case, failed ones included. Each column has its own type, and its unit in the field's metadata.

    Raises UsageError if a cell does not have its column's type or exceeds 64 bits.
    """
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    units = {name: {"unit": column.unit} if column.unit else None for name, column in COLUMNS.items()}
    schema = pa.schema(
        [pa.field(name, types[column.type], name not in AXES, units[name]) for name, column in COLUMNS.items()],
        metadata={"generator": f"attn-harness {__version__}"},
    )
    lines, columns = _completed(stored), []
    for field in schema:
        try:
            columns.append(pa.array([getattr(line, field.name) for line in lines], type=field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{stored.path}: a cell of column {field.name} is no {field.type}") from error
    for name, sizes in table(lines).drop(columns=[*COLUMNS]).items():  # of own axes that vary
        columns.append(pa.array(sizes))
        schema = schema.append(pa.field(name, columns[-1].type))
    file = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), file)
    return Exported(file.getvalue(), len(lines))


_MS = 1e3
# The action puts a name between backticks in a table cell, where nothing can be escaped.
_CELL = str.maketrans({"|": "¦", "`": "'", "\\": "/"})
_EXTRA = ("trials", "stop_reason", "flops", "depth", "backend", "suspect")


def export_github_action_benchmark(stored: StoredRun) -> Exported:
    """Export the cases with a time or peak memory; a notice counts the others.

    Raises UsageError if no case has either.
    """
    measured = [line for line in stored.lines if line.status == "ok" and any(_entries(line))]
    if not measured:
        raise UsageError(f"{stored.path} has neither times nor memory to export")
    entries = [entry for line in measured for entry in _entries(line)]
    return Exported(_as_json(entries), len(measured), _left_out(stored, measured, "without a result"))


def _entries(line: CaseResult) -> Iterator[dict[str, Any]]:
    name = f"{formatting.printable(line.impl)} {overrides(line)}".translate(_CELL)
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
    columns = known_columns(line)
    return "\n".join(f"{name}: {formatting.printable(str(columns[name]))}" for name in _EXTRA if name in columns)


# In pytest-benchmark's format, each trial is one round. Its value is in seconds per call.
# Samples of one trial are not independent, so counting them as rounds would understate the uncertainty. Trials are
# independent, and each case has a few of them.


def machine_info(machine: Machine) -> dict[str, Any]:
    """`machine_info`, with empty texts for what the run does not record."""
    system, _, release = (machine.get("kernel") or "").partition(" ")
    cpu, torch = part(machine, "cpu"), part(machine, "torch")
    model = cpu.get("model") or ""
    return {
        "node": machine.get("host") or "",
        "processor": model,
        "machine": "",
        "python_compiler": "",
        "python_implementation": "CPython",
        "python_implementation_version": machine.get("python") or "",
        "python_version": machine.get("python") or "",
        "python_build": ["", ""],
        "release": release,
        "system": system,
        "cpu": {"brand_raw": model, "count": cpu.get("threads")},
        "torch": torch.get("version") or "",
    }


def commit_info(machine: Machine) -> dict[str, Any]:
    """`commit_info`: the commit of the directory the run was made in, else of this project's checkout."""
    described = machine.get("user_commit") or machine.get("project_commit") or "unversioned"
    return {
        "id": described.removesuffix("-dirty"),
        "time": None,
        "author_time": None,
        "dirty": described.endswith("-dirty"),
        "project": "attn-harness",
        "branch": "(unknown)",
    }


def rounds_of(run: Path) -> dict[Case, list[float]]:
    """The value of every trial in a run's rows, by case, in the order they were taken; empty without rows."""
    if not (run / "rows").is_dir():
        return {}
    past, _ = read_resume_state(run)
    return {case: list(map(attrgetter("value_s"), trials)) for case, trials in past.trials.items()}


def statistics_of(values_s: Sequence[float]) -> dict[str, Any]:
    """The items of `stats`, in seconds, for at least one round.

    Quartiles and outliers are defined as in pytest-benchmark.
    """
    ordered = np.sort(values_s)
    total = float(ordered.sum())
    middle, spread = float(ordered.mean()), float(ordered.std(ddof=1)) if len(ordered) > 1 else 0.0
    q1, median, q3 = np.quantile(ordered, (0.25, 0.5, 0.75), method="hazen").tolist()
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    within = ordered[(ordered >= low) & (ordered <= high)]
    beyond_fences = len(ordered) - len(within)
    beyond_spread = int(((ordered < middle - spread) | (ordered > middle + spread)).sum())
    return {
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
        "mean": middle,
        "stddev": spread,
        "rounds": len(ordered),
        "median": median,
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": beyond_fences,
        "stddev_outliers": beyond_spread,
        "outliers": f"{beyond_spread};{beyond_fences}",
        "ld15iqr": float(within[0]),
        "hd15iqr": float(within[-1]),
        "ops": len(ordered) / total,
        "total": total,
        "data": list(values_s),
        "iterations": 1,
    }


def statistics_of_interval(time_s: float, lo_s: float | None, hi_s: float | None, trials: int) -> dict[str, Any]:
    """The same items, without `data`, for a case of which only an estimate and its 95 % interval were kept.

    The estimate is close to the fastest trial's time, so it becomes `min`. For lack of other values it is also `mean`
    and `median`. The `max` is the interval's upper end, or the estimate if it has none. The `stddev` is the spread of
    trials that the interval's width implies.
    """
    hi_s = hi_s if hi_s is not None and time_s <= hi_s < math.inf else time_s
    lo_s = lo_s if hi_s > time_s and lo_s is not None and lo_s <= time_s else time_s
    rounds = max(1, trials)
    statistics = statistics_of([time_s])
    del statistics["data"]
    return {
        **statistics,
        **dict.fromkeys(("max", "q3", "hd15iqr"), hi_s),
        "stddev": (hi_s - lo_s) / 2 / NORMAL * math.sqrt(rounds),
        "rounds": rounds,
        "iqr": hi_s - time_s,
        "total": rounds * time_s,
    }


# The version of pytest-benchmark whose file format this follows.
_VERSION = "5.3.1"


def export_pytest_benchmark(stored: StoredRun) -> Exported:
    """Export the cases with a time; a notice counts the others. Raises UsageError if no case has one."""
    timed = [line for line in stored.lines if line.status == "ok" and line.time_s is not None]
    if not timed:
        raise UsageError(f"{stored.path} has no times to export")
    rounds = rounds_of(stored.path)
    summary = stored.path / "summary.csv"
    written = summary if summary.is_file() else stored.path
    precision = stored.config.get("precision") or {}
    content = {
        "machine_info": machine_info(stored.machine),
        "commit_info": commit_info(stored.machine),
        "benchmarks": [_benchmark(line, rounds.get(line.case, ()), precision) for line in timed],
        "datetime": began(stored.path) or datetime.fromtimestamp(written.stat().st_mtime, UTC).isoformat(),
        "version": _VERSION,
    }
    return Exported(_as_json(content), len(timed), _left_out(stored, timed, "without a time"))


def _benchmark(line: CaseResult, values_s: Sequence[float], precision: dict[str, Any]) -> dict[str, Any]:
    which = overrides(line)
    name = f"{formatting.printable(line.impl)}[{which}]"
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
        "params": line.case.as_dict(),
        "param": which,
        "extra_info": {**known_columns(line), "rounds_are": "trials" if values_s else "an interval"},
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


# Viewers of kernel benchmarks. Each has a template, which reads the `line` of a case and the values of its trials.
_TEMPLATES = Path(__file__).with_name("templates")


def export_liger(stored: StoredRun) -> Exported:
    """Export times and memory as rows of Liger's table."""
    template, cases = _TEMPLATES / "liger-csv.jinja", _timed_cases(stored)
    notice = "y_value_20 and y_value_80 are quantiles of trials, and of estimate-95 the ends of its 95 % interval"
    exported = export_by_template(stored, template, cases, notice, np=np, defaults=DEFAULTS)
    rows = pd.DataFrame(json.loads(exported.content))
    return exported._replace(content=file_io.to_csv(rows).encode())


def export_hud(stored: StoredRun) -> Exported:
    """Export time, peak memory, FLOPs and depth as records of the third version of PyTorch's HUD."""
    notice = "extra_info has the 95 % interval of time_s"
    return export_by_template(stored, _TEMPLATES / "pytorch-hud.jinja", _timed_cases(stored), notice)


def export_huggingface(stored: StoredRun) -> Exported:
    """Export the times of trials as `kernels benchmark` writes those of calls."""
    cases = [case for case in _timed_cases(stored) if case["values_s"]]
    notice = "an iteration is a trial in the run's rows; the estimate and its 95 % interval are left out"
    return export_by_template(stored, _TEMPLATES / "huggingface-kernels.jinja", cases, notice, np=np)


def _timed_cases(stored: StoredRun) -> list[dict[str, Any]]:
    """The cases that have not failed and have no suspect time."""
    rounds = rounds_of(stored.path)
    lines = [line for line in stored.lines if line.status == "ok" and line.suspect is None]
    return [{"line": line, "values_s": rounds.get(line.case, [])} for line in lines]
