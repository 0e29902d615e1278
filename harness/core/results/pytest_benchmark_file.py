"""Read a file of pytest-benchmark JSON as the lines and the machine of a run."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat

from harness.core.config.machine import part
from harness.core.model.errors import UsageError, usage_error_about
from harness.core.model.file_io import read_bytes
from harness.core.model.file_validation import Damaged, OpenModel, checked, known_machine
from harness.core.model.formatting import counted, printable
from harness.core.model.sweep_axes import AXES, Case

from .columns import COLUMNS, CaseResult, with_own_axes
from .row import add_line

# Major versions of pytest-benchmark that write the fields read here in the same way.
MAJORS = (3, 4, 5)
_ONE_PROCESS = "the intervals of {} come from the rounds of one process; other processes may differ by more"


def _check_version(version: str) -> str:
    if version.partition(".")[0] not in map(str, MAJORS):
        raise ValueError(f"{version[:20]!r}: only versions {MAJORS[0]} to {MAJORS[-1]} can be read")
    return version


_Values = dict[str, Any]
_Spread = Annotated[FiniteFloat, Field(ge=0)]


class _Stats(OpenModel):
    min: Annotated[float, Field(gt=0)]
    median: Annotated[float, Field(gt=0, lt=1e12)]
    max: Annotated[float, Field(gt=0)] = float("inf")
    mean: FiniteFloat | None = None
    q1: FiniteFloat | None = None
    q3: FiniteFloat | None = None
    iqr: _Spread = 0.0
    stddev: _Spread = 0.0
    rounds: Annotated[int, Field(ge=1)] = 1


class _Timed(OpenModel):
    stats: _Stats


class _Benchmark(OpenModel):
    name: str | None = None
    params: _Values | None = None
    extra_info: _Values | None = None
    stats: Any = None

    def __str__(self) -> str:
        return self.name or "a benchmark without a name"


class _File(OpenModel):
    version: Annotated[str, AfterValidator(_check_version)]
    benchmarks: list[_Benchmark]
    machine_info: Any = None
    commit_info: Any = None


def read_pytest_benchmark(path: Path) -> tuple[list[CaseResult], list[str], _Values]:
    """Read lines, notices and the machine, the last in the format of `machine.json`.

    Each benchmark names its case in `extra_info`. It may bring its own `time_s` with an interval, as the exports of
    this harness do. For any other benchmark, `time_s` is the fastest round and the interval ends at the median round.
    The lower end is equally far away, as a ratio. All rounds come from one process, and another process may differ
    more than these rounds do. The number of `trials` is therefore 1, and a notice says so.

    A benchmark that cannot be read is left out, and a notice names it. Raises UsageError if pytest-benchmark did not
    write the file, or if no benchmark has a `seq_len`.
    """
    file = _content(path)
    lines = dict[Case, CaseResult | None]()
    from_rounds = []
    damaged = []
    without = 0
    for benchmark in file.benchmarks:
        try:
            record = _record(benchmark)
            if "seq_len" not in record:
                without += 1
                continue
            is_from_rounds = not record.keys() >= {"time_s", "time_lo_s"}
            if is_from_rounds:
                record |= _time(checked(_Timed, benchmark.model_dump()).stats)
            if record["status"] != "ok":
                raise Damaged(f"it has a time and status={record['status']}")
            case = add_line(record, True, lines)
        except (ValueError, UsageError) as damage:
            damaged.append(printable(f"{benchmark}: {damage}"))
            continue
        if is_from_rounds:
            from_rounds.append(case)
    left = {case: line for case, line in lines.items() if line}
    if not left:
        unsized = "no benchmark says its seq_len in extra_info: of what sizes they are is not known"
        raise UsageError(f"{path}: {[*damaged, unsized][0]}")
    notices = [f"left out: {text}" for text in damaged]
    notices += [f"{counted(without, 'benchmark')} without a seq_len in extra_info left out"] if without else []
    rounds = len(left.keys() & from_rounds)
    notices += [_ONE_PROCESS.format(counted(rounds, "benchmark"))] if rounds else []
    machine, damages = known_machine(_machine(file))
    return with_own_axes(left.values()), [*notices, *(f"{path}: {damage}" for damage in damages)], machine


def _content(path: Path) -> _File:
    with usage_error_about(path):
        content = read_bytes(path)
    try:
        return checked(_File, json.loads(content))
    except Damaged as damage:
        written = f"write one with --benchmark-json={path.name}"
        raise UsageError(f"{path} is not a pytest-benchmark file: {written} ({damage})") from damage
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not whole JSON: neither a run nor a pytest-benchmark file") from error


def _record(benchmark: _Benchmark) -> _Values:
    """Columns that the benchmark states in `extra_info`. Axes may also come from the parameters of its test."""
    params, extra = (entries or {} for entries in (benchmark.params, benchmark.extra_info))
    axes = {axis: value for axis, value in params.items() if axis in AXES}
    for axis in axes.keys() & extra.keys():
        if axes[axis] != extra[axis]:
            raise Damaged(f"its parameter says {axis}={axes[axis]!r}, and its extra_info {axis}={extra[axis]!r}")
    stated = axes | extra
    record = {name: stated[name] for name in COLUMNS if stated.get(name) is not None and stated[name] == stated[name]}
    own_name = str(benchmark).partition("[")[0].removeprefix("test_")
    return {"impl": own_name or "layer", "trials": 1, "status": "ok", **record}


def _time(stats: _Stats) -> dict[str, float | None]:
    for names in ("min q1 median q3 max", "min mean max"):
        values = [value for name in names.split() if (value := getattr(stats, name)) is not None]
        if values != sorted(values):
            raise Damaged(f"stats: {names} must not fall: {values}")
    fastest, middle = stats.min, stats.median
    time = {"time_s": fastest, "time_median_s": middle, "time_lo_s": 0.0, "time_hi_s": None}
    if middle == fastest:  # a single round, like a single trial, says nothing about the spread
        return time
    return time | {"time_lo_s": fastest**2 / middle, "time_hi_s": middle}


def _machine(file: _File) -> _Values:
    """The machine in the format of `machine.json`, as far as pytest-benchmark records it."""
    content = file.model_dump()
    info, commit = part(content, "machine_info"), part(content, "commit_info")
    cpu = part(info, "cpu")
    commit_id = commit.get("id") if commit.get("id") not in ("unversioned", "unknown") else None
    entries = {
        "host": info.get("node"),
        "cpu": {"model": cpu.get("brand_raw") or info.get("processor"), "threads": cpu.get("count")},
        "kernel": " ".join(str(info[name]) for name in ("system", "release") if info.get(name)),
        "python": info.get("python_version"),
        "user_commit": f"{commit_id}{'-dirty' if commit.get('dirty') else ''}" if commit_id else None,
        "torch": {"version": info["torch"]} if info.get("torch") else None,
    }
    return {name: value for name, value in entries.items() if value}
