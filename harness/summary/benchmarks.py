"""Read pytest-benchmark JSON as summary lines. Each benchmark names its case in `extra_info`.

A benchmark may bring its own `time_s` and interval, as the exports of this harness do. For any other benchmark,
`time_s` is the fastest round and the interval ends at the median round. The lower end is equally far away, as a ratio.
All rounds come from one process, and another process may differ more than these rounds do. The number of `trials`
is therefore 1, and a notice says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from harness.bounded_file import read_bytes
from harness.case import AXES
from harness.errors import UsageError
from harness.summary.line import COLUMNS, Line
from harness.summary.tidy import lines_of

# Major versions of pytest-benchmark that write the fields read here in the same way.
MAJORS = (3, 4, 5)
_ONE_PROCESS = "of {} the interval goes by how the rounds of one process scatter; another process may lie outside of it"
_HINTS = {name: get_type_hints(Line)[name] for name in COLUMNS}
_MOST = 2**63 - 1


def read_benchmarks(path: Path) -> tuple[list[Line], list[str], dict[str, Any]]:
    """Read lines, notices and the machine, the last in the format of `machine.json`.

    Raises UsageError if pytest-benchmark did not write the file, or if no benchmark has a `seq_len`.
    """
    content = _content(path)
    found: list[dict[str, Any]] = []
    without = from_rounds = 0
    for benchmark in content["benchmarks"]:
        record = _record(path, benchmark)
        if "seq_len" not in record:
            without += 1
            continue
        if "time_s" not in record:
            record |= _time(path, benchmark)
            from_rounds += 1
        found.append(record)
    if not found:
        raise UsageError(f"{path}: no benchmark says its seq_len in extra_info: of what sizes they are is not known")
    notices = [f"{_many(without)} without a seq_len in extra_info left out"] if without else []
    notices += [_ONE_PROCESS.format(_many(from_rounds))] if from_rounds else []
    return _lines(path, found), notices, _machine(content)


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_bytes(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not whole JSON: neither a run nor a pytest-benchmark file") from error
    version = content.get("version") if isinstance(content, dict) else None
    benchmarks = content.get("benchmarks") if isinstance(content, dict) else None
    if not isinstance(version, str) or not isinstance(benchmarks, list):
        raise UsageError(f"{path} is not a pytest-benchmark file: write one with --benchmark-json={path.name}")
    if version.partition(".")[0] not in map(str, MAJORS):
        known = f"{MAJORS[0]} to {MAJORS[-1]}"
        raise UsageError(f"{path} is of pytest-benchmark {version[:20]!r}: only versions {known} can be read")
    if not all(isinstance(benchmark, dict) for benchmark in benchmarks):
        raise UsageError(f"{path} is not a pytest-benchmark file: it has benchmarks that are none")
    return content


def _record(path: Path, benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that the benchmark states in `extra_info`. Axes may also come from the parameters of its test."""
    said = {axis: value for axis, value in _part(benchmark, "params").items() if axis in AXES}
    said |= {name: value for name, value in _part(benchmark, "extra_info").items() if name in _HINTS}
    record = {name: _whole(value) for name, value in said.items() if value is not None and value == value}
    for name, value in record.items():
        if not _fits(value, _HINTS[name]):
            raise UsageError(f"{path}: {_name(benchmark)} says {name}={str(value)[:40]!r}, which is none")
    record.setdefault("impl", _whole(_name(benchmark).partition("[")[0].removeprefix("test_")) or "layer")
    record["status"], record["trials"] = "ok", record.get("trials", 1)
    return record


def _whole(value: Any) -> Any:
    """Return a text without lone surrogates, which cannot be written to a file; return other values unchanged."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _fits(value: Any, hint: Any) -> bool:
    kinds = (hint, *getattr(hint, "__args__", ()))
    if str in kinds:
        return isinstance(value, str)
    if bool in kinds:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return float in kinds or (value == value and abs(value) <= _MOST)


def _time(path: Path, benchmark: Mapping[str, Any]) -> dict[str, float]:
    stats = _part(benchmark, "stats")
    fastest, middle = stats.get("min"), stats.get("median")
    if not (isinstance(fastest, int | float) and isinstance(middle, int | float) and 0 < fastest <= middle < 1e12):
        raise UsageError(f"{path}: {_name(benchmark)} has no times: min={fastest!r}, median={middle!r}")
    time = {"time_s": float(fastest), "time_median_s": float(middle), "time_lo_s": 0.0}
    if middle == fastest:  # a single round, like a single trial, says nothing about the spread
        return time
    return {**time, "time_lo_s": fastest * (fastest / middle), "time_hi_s": float(middle)}


def _lines(path: Path, records: Sequence[Mapping[str, Any]]) -> list[Line]:
    import pandas as pd

    # `object` keeps counts exact: pandas would turn a column with gaps into floats and round large numbers.
    columns = [name for name in COLUMNS if any(name in record for record in records)]
    columns = [*dict.fromkeys([*columns, "time_lo_s", "time_hi_s"])]
    cells = {name: pd.Series([record.get(name) for record in records], dtype=object) for name in columns}
    try:
        lines = lines_of(pd.DataFrame(cells))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return [_with_tokens(line) for line in lines]


def _with_tokens(line: Line) -> Line:
    if line.tokens_per_s is not None or line.time_s is None:
        return line
    tokens = line.case.tokens
    return replace(line, tokens_per_s=tokens / line.time_s)


def _machine(content: Mapping[str, Any]) -> dict[str, Any]:
    """The machine in the format of `machine.json`, as far as pytest-benchmark records it."""
    info = _part(content, "machine_info")
    cpu = _part(info, "cpu")
    commit = _part(content, "commit_info")
    said = commit.get("id") if commit.get("id") not in ("unversioned", "unknown") else None
    known = {
        "host": info.get("node"),
        "cpu": {"model": cpu.get("brand_raw") or info.get("processor"), "threads": cpu.get("count")},
        "kernel": " ".join(str(info[name]) for name in ("system", "release") if info.get(name)),
        "python": info.get("python_version"),
        "user_commit": f"{said}{'-dirty' if commit.get('dirty') else ''}" if said else None,
        "torch": {"version": info["torch"]} if info.get("torch") else None,
    }
    return {name: value for name, value in known.items() if value}


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


def _name(benchmark: Mapping[str, Any]) -> str:
    return str(benchmark.get("name") or "a benchmark without a name")


def _many(number: int) -> str:
    return f"{number} benchmark{'s' if number > 1 else ''}"
