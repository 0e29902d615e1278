"""Where a run comes from: its configuration, its machine, and the command that repeats it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.bounded_file import MOST_YAML_BYTES, read_text
from harness.errors import UsageError
from harness.report import units
from harness.report.reproduce import command
from harness.summary.stored import Stored


@dataclass(frozen=True)
class Origin:
    """Where a run, or a file of benchmarks, comes from.

    `config` is the text of config.yaml and `command` repeats the run. Both are empty for results without a sweep.
    The content of machine.json is in `machine`, empty if the file is missing. For each axis that the configuration
    gives as a list, `grid` has its values in the configured order.
    """

    name: str
    config: str
    command: str
    machine: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def origin(stored: Stored) -> Origin:
    """Return the origin of a stored run. Raises UsageError if its configuration is not a sweep's."""
    if not stored.config:
        return Origin(stored.path.stem, "", "", stored.machine)
    path = stored.path / "config.yaml"
    try:
        repeat = command(stored.config)
    except (KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a sweep's configuration") from error
    return Origin(
        stored.path.resolve().name, read_text(path, MOST_YAML_BYTES), repeat, stored.machine, _grid(stored.config)
    )


def _grid(config: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {str(axis): list(values) for axis, values in config.items() if isinstance(values, list)}


def facts(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a name and a value that describe the machine to a reader; unknown ones are left out."""
    return [(what, how) for what, how in _facts(machine) if how]


def _facts(machine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cpu, torch, libraries = (_part(machine, name) for name in ("cpu", "torch", "libraries"))
    yield "host", str(machine.get("host") or "")
    cores = f", {cpu['usable']} of {cpu['threads']} threads usable" if {"usable", "threads"} <= cpu.keys() else ""
    yield "processor", f"{cpu.get('model') or ''}{cores}"
    yield "GPU", str(torch.get("gpu") or "")
    yield "memory", units.size(machine["memory_bytes"]) if machine.get("memory_bytes") else ""
    yield "system", ", ".join(str(machine[name]) for name in ("kernel", "libc") if machine.get(name))
    yield "Python", str(machine.get("python") or "")
    yield "torch", ", ".join(str(torch[name]) for name in ("version", "cpu_capability") if torch.get(name))
    others = [f"{name} {version}" for name, version in libraries.items() if version and name != "torch"]
    yield "packages", ", ".join(others)
    yield "environment", " ".join(f"{name}={value}" for name, value in _part(machine, "environment").items())
    yield "commit", str(machine.get("project_commit") or "")
    yield "commit of the directory", str(machine.get("user_commit") or "")


def hardware(machine: Mapping[str, Any]) -> str:
    """The GPU, or without one the processor, in words; empty if neither is known."""
    known = dict(facts(machine))
    return known.get("GPU") or known.get("processor", "")


def calibration(machine: Mapping[str, Any]) -> list[str]:
    """The calibration's verdict and advice as sentences, or the recorded reason why there was no calibration."""
    found = _part(machine, "calibration")
    if not found:
        note = str(machine.get("calibration_note") or "").removeprefix("there is none: ")
        return [f"Not calibrated: {note}."] if note else []
    advice = [str(one["text"]) for one in found.get("advice", ()) if isinstance(one, Mapping) and "text" in one]
    return [f"Calibration: {found.get('verdict', 'no verdict')}.", *advice]


def _part(machine: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = machine.get(name)
    return part if isinstance(part, Mapping) else {}
