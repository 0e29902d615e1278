"""Read a stored run: the input of every command that does not measure."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import yaml

from harness.bounded_file import MOST_YAML_BYTES, read_json, read_text
from harness.config.schema import Precision
from harness.csv_cells import from_csv
from harness.errors import UsageError
from harness.store import check_run, machines
from harness.summary.benchmarks import read_benchmarks
from harness.summary.line import Line
from harness.summary.nodes import machine_of, told
from harness.summary.summarise import summarise_run
from harness.summary.tidy import lines_of


@dataclass(frozen=True)
class Stored:
    """A run: its lines, a notice for each unreadable place in its rows, its configuration and its machine.

    The configuration is empty if no sweep measured the run.
    """

    path: Path
    lines: list[Line]
    notices: list[str]
    config: dict[str, Any]
    machine: dict[str, Any]


def read_stored(path: Path) -> Stored:
    """Read the run at `path` from its rows, or from `summary.csv` if only the tables were kept.

    If `path` is a file, read it as pytest-benchmark JSON. Raises UsageError if `path` is not a run or its configuration
    is unreadable.
    """
    if path.is_file():
        lines, notices, machine = read_benchmarks(path)
        return Stored(path, lines, notices, {}, machine)
    published = not (path / "rows").exists() and (path / "summary.csv").is_file()
    if not published:
        check_run(path)
    config = _config(path / "config.yaml")
    lines, notices = (
        (_published(path / "summary.csv"), list[str]())
        if published
        else summarise_run(path, Precision(**config["precision"]))  # the precision determines why each case stopped
    )
    if published:
        notices.append(f"{path} has no rows/: rebuilt from summary.csv, which holds one line per case")
    machine, more = _machine(path / "machine.json")
    hosts = machines(path)
    if (path / "machines").is_dir() and hosts:  # the machines that measured, not the one that submitted the jobs
        machine, more = machine_of(hosts), told(lines, hosts)
    return Stored(path, lines, [*notices, *more], config, machine)


def _published(path: Path) -> list[Line]:
    """Read the lines of a run that kept only its tables."""
    try:
        text = read_text(path)
        if text and not text.endswith("\n"):
            raise UsageError(f"{path} is not whole: it ends within a line")
        return lines_of(from_csv(text))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, not a table, or not a table of lines
        raise UsageError(f"{path} is not a run's summary") from error


def _config(path: Path) -> dict[str, Any]:
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
    return cast(dict[str, Any], config)


def _machine(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Read the machine and any notices. A run with an unknown machine is still valid."""
    try:
        machine = read_json(path)
    except (OSError, ValueError):
        return {}, [f"{path}: cannot be read, the machine is not known"]
    return (machine, []) if isinstance(machine, dict) else ({}, [f"{path}: holds no machine"])
