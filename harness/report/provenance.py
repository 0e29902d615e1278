"""Where a run comes from: its configuration, its machine, and the command that repeats it."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness import formatting
from harness.config import compose
from harness.config.compose import listed_names
from harness.config.files import conf_directory
from harness.errors import UsageError
from harness.files import MOST_YAML_BYTES, read_text
from harness.results.run_directory import StoredRun

# Values that Hydra's grammar reads as one value without quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_.:/+@%-]+")

# Keys of later versions. An older configuration without them counts as having their defaults.
_LATER = (
    "mask",
    "padding_fraction",
    "kv_len",
    "compile_timeout_s",
    "grow",
    "retry",
    "launcher",
    "wait",
    "points",
    "paper",
)
# Keys about where and how far a run measured, not what. `reproduce_command` adds `precision` and `paper` separately.
_LEFT_OUT = ("out", "retry", "launcher", "wait", "precision", "paper")


def reproduce_command(config: Mapping[str, Any]) -> str:
    """Return the command that measures a run's cases again, from the configuration stored with the run.

    It is `python -m harness sweep` with the options that differ from the defaults, quoted for a shell. `out` is left
    out, because a run has its own directory. Raises KeyError if the configuration lacks a key that has existed since
    the first version.
    """
    preset = _preset(config.get("paper"))
    usual = yaml.safe_load(_usual(preset))
    config = {**{key: usual[key] for key in _LATER}, **config}
    changed = [
        f"{key}={_written(config[key])}"
        for key in usual
        if key not in _LEFT_OUT and listed_names(config[key]) != listed_names(usual[key])
    ]
    own = preset and not (conf_directory() / "paper" / f"{config['paper']['name']}.yaml").is_file()
    elsewhere = ["--config-dir", "DIR"] if own else []
    precision = _precision(config["precision"], usual)
    return shlex.join(["python", "-m", "harness", "sweep", *preset, *changed, *precision, *elsewhere])


def _preset(paper: Any) -> list[str]:
    """The options that select the paper's setting, empty without a paper."""
    if not isinstance(paper, Mapping) or "name" not in paper:
        return []
    return [f"paper={paper['name']}", *([f"scale={paper['scale']}"] if paper.get("scale") else [])]


def _usual(preset: Sequence[str]) -> str:
    """The configuration to compare with, as YAML. It is the default one if the paper is not built in."""
    try:
        return compose(preset, for_sweep=True).yaml
    except UsageError:
        return compose([], for_sweep=True).yaml


def _precision(given: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """The option for the named precision equal to the given one; without one, the values that are not the default."""
    for file in sorted((conf_directory() / "precision").glob("*.yaml")):
        if yaml.safe_load(file.read_text(encoding="utf-8")) == dict(given):
            return [] if dict(given) == usual["precision"] else [f"precision={file.stem}"]
    return [f"precision.{key}={value}" for key, value in given.items() if value != usual["precision"][key]]


def _written(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):  # points
        return "[" + ",".join(_point(item) for item in value) + "]"
    return ",".join(_quoted(item) for item in listed_names(value))


def _point(point: Mapping[str, Any]) -> str:
    return "{" + ",".join(f"{axis}:{_quoted(value)}" for axis, value in point.items()) + "}"


def _quoted(value: Any) -> str:
    if value is None:
        return "null"
    text = str(value)
    if not isinstance(value, str) or _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True)
class Provenance:
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


def provenance_of(stored: StoredRun) -> Provenance:
    """Return the origin of a stored run. Raises UsageError if its configuration is not a sweep's."""
    if not stored.config:
        return Provenance(stored.path.stem, "", "", stored.machine)
    path = stored.path / "config.yaml"
    try:
        repeat = reproduce_command(stored.config)
    except (KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a sweep's configuration") from error
    return Provenance(
        stored.path.resolve().name, read_text(path, MOST_YAML_BYTES), repeat, stored.machine, _grid(stored.config)
    )


def _grid(config: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {str(axis): list(values) for axis, values in config.items() if isinstance(values, list)}


def provenance_facts(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a name and a value that describe the machine to a reader; unknown ones are left out."""
    return [(what, how) for what, how in _facts(machine) if how]


def _facts(machine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cpu, torch, libraries = (_part(machine, name) for name in ("cpu", "torch", "libraries"))
    yield "host", str(machine.get("host") or "")
    cores = f", {cpu['usable']} of {cpu['threads']} threads usable" if {"usable", "threads"} <= cpu.keys() else ""
    yield "processor", f"{cpu.get('model') or ''}{cores}"
    yield "GPU", str(torch.get("gpu") or "")
    yield "memory", formatting.size(machine["memory_bytes"]) if machine.get("memory_bytes") else ""
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
    known = dict(provenance_facts(machine))
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
