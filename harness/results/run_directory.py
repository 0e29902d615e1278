"""Read a stored run: the input of every command that does not measure.

A stored run is the directory of a run, possibly measured on several hosts, or a file of pytest-benchmark JSON.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast, get_type_hints

import yaml

from harness.case import AXES, SETTINGS
from harness.config.schema import Precision
from harness.errors import UsageError
from harness.files import MOST_YAML_BYTES, from_csv, read_bytes, read_json, read_text
from harness.former_names import present
from harness.machine import unlike
from harness.results.summarise import summarise_run
from harness.results.table import COLUMNS, CaseResult, lines_of_table
from harness.store import check_run, machines

Setting = tuple[Any, ...]


def machine_of_hosts(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The machines of several hosts as one: that of the first host, with the names of all hosts as `host`."""
    first = next(iter(hosts.values()))
    return {**first, "host": ", ".join(hosts)}


def host_notices(lines: Sequence[CaseResult], hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Notices for a run of several hosts; none for a single host.

    One notice says how many cases each host measured. Further notices warn if different machines measured cases with
    the same settings, because such cases are compared with each other.
    """
    settings: dict[str, dict[Setting, int]] = {}
    for line in lines:
        if line.host is not None:
            setting = tuple(getattr(line, name) for name in SETTINGS)
            of_host = settings.setdefault(line.host, {})
            of_host[setting] = of_host.get(setting, 0) + 1
    if len(settings) < 2:
        return []
    varied = _varying([setting for of_host in settings.values() for setting in of_host])
    who = [
        f"{host}: {sum(of_host.values())} cases{_host_names(of_host, varied)}"
        for host, of_host in sorted(settings.items())
    ]
    return [f"measured by {'; '.join(who)}", *_mixed_machines(settings, hosts, varied)]


def _mixed_machines(
    settings: Mapping[str, Mapping[Setting, int]], hosts: Mapping[str, Mapping[str, Any]], varied: Sequence[int]
) -> list[str]:
    sentences = []
    for setting in dict.fromkeys(setting for of_host in settings.values() for setting in of_host):
        names = sorted({name for host, of_host in settings.items() if setting in of_host for name in host.split(",")})
        known = [(name, hosts[name]) for name in names if name in hosts]
        differences = [(name, unlike(known[0][1], other)) for name, other in known[1:]]
        for name, differing in differences:
            if differing:
                of = _host_names({setting: 1}, varied).strip(" ()")
                sentences.append(
                    f"{of + ': ' if of else ''}{known[0][0]} and {name} are unlike machines "
                    f"({'; '.join(one.replace(' before and ', ' and ').removesuffix(' now') for one in differing)}): "
                    "laws, slopes and comparisons mix what both have measured"
                )
    return sentences


def _varying(settings: Sequence[Setting]) -> list[int]:
    """The positions in a setting whose values differ."""
    return [place for place in range(len(SETTINGS)) if len({setting[place] for setting in settings}) > 1]


def _host_names(settings: Mapping[Setting, int], varied: Sequence[int]) -> str:
    texts = [" ".join(f"{SETTINGS[place]}={setting[place]}" for place in varied) for setting in settings]
    return f" ({', '.join(texts)})" if varied else ""


# Major versions of pytest-benchmark that write the fields read here in the same way.
MAJORS = (3, 4, 5)
_ONE_PROCESS = "of {} the interval goes by how the rounds of one process scatter; another process may lie outside of it"
_HINTS = {name: get_type_hints(CaseResult)[name] for name in COLUMNS}
_MOST = 2**63 - 1


def read_pytest_benchmark(path: Path) -> tuple[list[CaseResult], list[str], dict[str, Any]]:
    """Read lines, notices and the machine, the last in the format of `machine.json`.

    Each benchmark names its case in `extra_info`. It may bring its own `time_s` and interval, as the exports of this
    harness do. For any other benchmark, `time_s` is the fastest round and the interval ends at the median round. The
    lower end is equally far away, as a ratio. All rounds come from one process, and another process may differ more
    than these rounds do. The number of `trials` is therefore 1, and a notice says so.

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
    notices = [f"{_several(without)} without a seq_len in extra_info left out"] if without else []
    notices += [_ONE_PROCESS.format(_several(from_rounds))] if from_rounds else []
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
    said = {axis: value for axis, value in present(_part(benchmark, "params")).items() if axis in AXES}
    said |= {name: value for name, value in present(_part(benchmark, "extra_info")).items() if name in _HINTS}
    record = {name: _whole_number(value) for name, value in said.items() if value is not None and value == value}
    for name, value in record.items():
        if not _matches_axis(value, _HINTS[name]):
            raise UsageError(f"{path}: {_name(benchmark)} says {name}={str(value)[:40]!r}, which is none")
    record.setdefault("impl", _whole_number(_name(benchmark).partition("[")[0].removeprefix("test_")) or "layer")
    record["status"], record["trials"] = "ok", record.get("trials", 1)
    return record


def _whole_number(value: Any) -> Any:
    """Return a text without lone surrogates, which cannot be written to a file; return other values unchanged."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _matches_axis(value: Any, hint: Any) -> bool:
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


def _lines(path: Path, records: Sequence[Mapping[str, Any]]) -> list[CaseResult]:
    import pandas as pd

    # `object` keeps counts exact: pandas would turn a column with gaps into floats and round large numbers.
    columns = [name for name in COLUMNS if any(name in record for record in records)]
    columns = [*dict.fromkeys([*columns, "time_lo_s", "time_hi_s"])]
    cells = {name: pd.Series([record.get(name) for record in records], dtype=object) for name in columns}
    try:
        lines = lines_of_table(pd.DataFrame(cells))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return [_with_tokens(line) for line in lines]


def _with_tokens(line: CaseResult) -> CaseResult:
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


def _several(number: int) -> str:
    return f"{number} benchmark{'s' if number > 1 else ''}"


@dataclass(frozen=True)
class StoredRun:
    """A run: its lines, a notice for each unreadable place in its rows, its configuration and its machine.

    The configuration is empty if no sweep measured the run.
    """

    path: Path
    lines: list[CaseResult]
    notices: list[str]
    config: dict[str, Any]
    machine: dict[str, Any]


def read_run_directory(path: Path) -> StoredRun:
    """Read the run at `path` from its rows, or from `summary.csv` if only the tables were kept.

    If `path` is a file, read it as pytest-benchmark JSON. Raises UsageError if `path` is not a run or its configuration
    is unreadable.
    """
    if path.is_file():
        lines, notices, machine = read_pytest_benchmark(path)
        return StoredRun(path, lines, notices, {}, machine)
    published = not (path / "rows").exists() and (path / "summary.csv").is_file()
    if not published:
        check_run(path)
    config = _read_config(path / "config.yaml")
    lines, notices = (
        (_read_published(path / "summary.csv"), list[str]())
        if published
        else summarise_run(path, Precision(**config["precision"]))  # the precision determines why each case stopped
    )
    if published:
        notices.append(f"{path} has no rows/: rebuilt from summary.csv, which holds one line per case")
    machine, more = _read_machine(path / "machine.json")
    hosts = machines(path)
    if (path / "machines").is_dir() and hosts:  # the machines that measured, not the one that submitted the jobs
        machine, more = machine_of_hosts(hosts), host_notices(lines, hosts)
    return StoredRun(path, lines, [*notices, *more], config, machine)


def _read_published(path: Path) -> list[CaseResult]:
    """Read the lines of a run that kept only its tables."""
    try:
        text = read_text(path)
        if text and not text.endswith("\n"):
            raise UsageError(f"{path} is not whole: it ends within a line")
        return lines_of_table(from_csv(text))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, not a table, or not a table of lines
        raise UsageError(f"{path} is not a run's summary") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(read_text(path, MOST_YAML_BYTES))
    except (yaml.YAMLError, UnicodeDecodeError, FileNotFoundError, RecursionError):
        config = None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    precision = config.get("precision") if isinstance(config, dict) else None
    if not isinstance(precision, dict) or set(precision) != {field.name for field in fields(Precision)}:
        raise UsageError(f"{path} is not a sweep's configuration")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in precision.values()):
        raise UsageError(f"{path} is not a sweep's configuration")
    return present(cast(dict[str, Any], config))


def _read_machine(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Read the machine and any notices. A run with an unknown machine is still valid."""
    try:
        machine = read_json(path)
    except (OSError, ValueError):
        return {}, [f"{path}: cannot be read, the machine is not known"]
    return (machine, []) if isinstance(machine, dict) else ({}, [f"{path}: holds no machine"])
