"""Where a run comes from: its configuration, its machine, and the command that repeats it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import yaml

from harness.core.config.compose import StoredConfig, as_list
from harness.core.config.hydra_adapter import conf_directory
from harness.core.config.machine import ENVIRONMENTS, Machine, gpu_settings, part
from harness.core.config.schema import PLAIN, Launcher
from harness.core.model import formatting
from harness.core.model.errors import UsageError
from harness.core.model.layer_options import options_of, value_text
from harness.core.model.sweep_axes import AXES
from harness.core.results.stored_run import StoredRun

# Settings about where and how far a run measured, not what.
_LEFT_OUT = ("out", "retry", "launcher", "wait")


def reproduce_command(config: StoredConfig) -> str:
    """Return the command that measures a run's cases again, from the configuration stored with the run.

    It is `python -m harness sweep` with what the user typed, quoted for a shell. `out` is left out, because a run has
    its own directory. Raises KeyError if the configuration lacks what the user typed.
    """
    words = ["python", "-m", "harness", "sweep"]
    for option in map(str, config["overrides"]):
        if re.split(r"[.=]", option)[0] not in _LEFT_OUT:
            words.append(option)
    if directory := config.get("config_dir"):
        words += ["--config-dir", str(directory)]
    return shlex.join(words)


# The files of the default sweep, beside `conf/sweep.yaml`.
_DEFAULT_FILES = ("sweep", "device/cpu", "shape/default", "preset/default")
_DEFAULT_PRECISION = "quick"
# Settings that are not compared one by one.
_APART = (*_LEFT_OUT, "precision", "paper")


def changed_settings(config: StoredConfig) -> dict[str, str]:
    """The settings of a stored configuration that differ from the default sweep's, by name.

    A precision or a paper has its name alone, and each option of layers is one setting with its own name. Settings
    about where the results are stored are left out.
    """
    paper = config.get("paper")
    settings = {"paper": str(paper["name"])} if paper else {}
    usual = dict(PLAIN)
    for file in _DEFAULT_FILES:
        usual |= yaml.safe_load((conf_directory() / f"{file}.yaml").read_text(encoding="utf-8"))
    for name in PLAIN:
        if name in config and name not in _APART and as_list(config[name]) != as_list(usual[name]):
            settings[name] = _written(config[name])
    if settings.pop("options", None):
        options = [options_of(text) for text in as_list(config["options"])]
        for name in dict.fromkeys(chain.from_iterable(options)):
            values = [value_text(stated.get(name, "default")) for stated in options]
            settings[name] = ", ".join(dict.fromkeys(map(str, values)))
    if (precision := _precision_name(config["precision"])) != _DEFAULT_PRECISION:
        settings["precision"] = precision
    launcher = vars(Launcher())
    for name, value in (config.get("launcher") or {}).items():
        if launcher.get(name, value) != value:
            settings[f"launcher.{name}"] = _written(value)
    return settings


def _precision_name(precision: Mapping[str, Any]) -> str:
    """The name of a precision, or its values if it has none."""
    for file in sorted((conf_directory() / "precision").glob("*.yaml")):
        if yaml.safe_load(file.read_text(encoding="utf-8")) == dict(precision):
            return file.stem
    return " ".join(f"{name}={value}" for name, value in precision.items())


def _written(value: Any) -> str:
    """A value, a list of values, or a list of points, as a user may type them."""
    items = as_list(value)
    text = ",".join(map(_item, items))
    return f"[{text}]" if any(isinstance(item, Mapping) for item in items) else text


def _item(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{axis}:{_item(size)}" for axis, size in value.items()) + "}"
    return "null" if value is None else str(value)


@dataclass(frozen=True)
class Provenance:
    """Where a run, or a file of benchmarks, comes from.

    `changed` has the settings that differ from the defaults, as text, and `command` repeats the run. Both are empty for
    results without a sweep. The content of machine.json is in `machine`, empty if the file is missing. For each axis
    that the configuration gives as a list, `grid` has its values in the configured order. `target` is the configured
    half-width of intervals, a share; 0 if there is none.
    """

    name: str
    changed: Mapping[str, str]
    command: str
    machine: Machine
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    target: float = 0.0

    @property
    def precision(self) -> str:
        """The name of the precision, or its values if it has none."""
        return self.changed.get("precision", _DEFAULT_PRECISION)


def provenance_of(stored: StoredRun) -> Provenance:
    """Return the provenance of a stored run. Raises UsageError if its configuration is not a sweep's."""
    if not stored.config:
        return Provenance(stored.path.stem, {}, "", stored.machine)
    try:
        repeat, changed = reproduce_command(stored.config), changed_settings(stored.config)
        target = stored.config["precision"].get("target", 0.0)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{stored.path / 'config.yaml'} is not a sweep's configuration") from error
    grid = {axis: values for axis, values in stored.config.items() if axis in AXES and isinstance(values, list)}
    return Provenance(stored.path.resolve().name, changed, repeat, stored.machine, grid, target)


def provenance_facts(machine: Machine) -> dict[str, str]:
    """What describes the machine to a reader, by names; unknown facts are left out."""
    cpu, torch, libraries = (part(machine, name) for name in ("cpu", "torch", "libraries"))
    cores = f", {cpu['usable']} of {cpu['threads']} threads usable" if {"usable", "threads"} <= cpu.keys() else ""
    packages = [f"{name} {version}" for name, version in libraries.items() if version and name != "torch"]
    environments = part(machine, ENVIRONMENTS)
    of_torch = ("version", "cpu_capability") if not environments else ()
    facts = {
        "host": machine.get("host"),
        "processor": f"{cpu.get('model') or ''}{cores}",
        "GPU": torch.get("gpu"),
        "GPU settings": gpu_settings(machine) or "",
        "memory": formatting.size(machine["memory_bytes"]) if machine.get("memory_bytes") else "",
        "system": ", ".join(machine[name] for name in ("kernel", "libc") if machine.get(name)),
        "Python": machine.get("python") if not environments else "",
        "torch": ", ".join(torch[name] for name in of_torch if torch.get(name)),
        "environments": "; ".join(f"{name}: {versions}" for name, versions in environments.items()),
        "packages": ", ".join(packages),
        "environment": " ".join(f"{name}={value}" for name, value in part(machine, "environment").items()),
        "harness": machine.get("project_commit"),
        "commit of the directory": machine.get("user_commit"),
    }
    return {name: fact for name, fact in facts.items() if fact}


def calibration(machine: Machine) -> list[str]:
    """The calibration's verdict and advice as sentences, or the recorded reason why there was no calibration."""
    record = part(machine, "calibration")
    if not record:
        note = (machine.get("calibration_note") or "").removeprefix("there is none: ")
        return [f"Not calibrated: {note}."] if note else []
    advice = filter(None, (advice.get("text") for advice in record.get("advice") or ()))
    return [f"Calibration: {record.get('verdict', 'no verdict')}.", *advice]
