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

# Values that Hydra's grammar reads as one value without quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_.:/+@%-]+")

# Settings about where and how far a run measured, not what.
_LEFT_OUT = ("out", "retry", "launcher", "wait")
# Their options stand apart from those of the axes and of single settings.
_APART = (*_LEFT_OUT, "precision", "paper")


def reproduce_command(config: StoredConfig) -> str:
    """Return the command that measures a run's cases again, from the configuration stored with the run.

    It is `python -m harness sweep` with what the user typed, quoted for a shell. `out` is left out, because a run has
    its own directory. The configuration of an older run lacks what the user typed. Its command sets everything that
    differs from `conf/sweep.yaml`. Raises KeyError without a precision.
    """
    typed = config.get("overrides")
    if isinstance(typed, list):
        options = [text for text in map(str, typed) if re.split(r"[.=]", text.lstrip("+"))[0] not in _LEFT_OUT]
        elsewhere = config.get("config_dir")
    else:
        options, elsewhere = _options(config)
    more = ["--config-dir", str(elsewhere)] if elsewhere else []
    return shlex.join(["python", "-m", "harness", "sweep", *options, *more])


def _options(config: StoredConfig) -> tuple[list[str], str | None]:
    """The options that give this configuration, and `DIR` if the paper's file is in a directory of the user's own."""
    paper, changed, elsewhere = config.get("paper"), _changed(config, _conf("sweep")), None
    options = list[str]()
    if isinstance(paper, Mapping) and "name" in paper:
        options = [f"{name}={paper[key]}" for name, key in (("paper", "name"), ("scale", "scale")) if paper.get(key)]
        options += map(str, paper.get("changed", ()))
        elsewhere = None if (conf_directory() / "paper" / f"{paper['name']}.yaml").is_file() else "DIR"
        # A paper's file has the axes.
        changed = {name: text for name, text in changed.items() if name not in (*AXES, "points")}
    options += map("=".join, changed.items())
    precision = _precision_name(config["precision"])
    if "=" in precision:
        return [*options, *(f"precision.{value}" for value in precision.split())], elsewhere
    return [*options, f"precision={precision}"], elsewhere


def _conf(name: str) -> dict[str, Any]:
    """The content of a file in `conf/`."""
    return yaml.safe_load((conf_directory() / f"{name}.yaml").read_text(encoding="utf-8"))


def _changed(config: StoredConfig, usual: Mapping[str, Any]) -> dict[str, str]:
    """The plain settings that differ from the usual ones, or from those of the schema."""
    plain = {name: value for name, value in {**PLAIN, **usual}.items() if name in PLAIN and name not in _APART}
    differing = [name for name in plain if name in config and as_list(config[name]) != as_list(plain[name])]
    return {name: _written(config[name]) for name in differing}


# The files of the default sweep, beside `conf/sweep.yaml`.
_DEFAULT_FILES = ("sweep", "device/cpu", "shape/default", "preset/default")
_DEFAULT_PRECISION = "quick"


def changed_settings(config: StoredConfig) -> dict[str, str]:
    """The settings of a stored configuration that differ from the default sweep's, by name.

    A precision or a paper has its name alone, and each option of layers is one setting with its own name. Settings
    about where the results are stored are left out.
    """
    paper, launcher, plain = config.get("paper"), config.get("launcher") or {}, vars(Launcher())
    settings = {"paper": str(paper["name"])} if paper else {}
    usual = {key: value for name in _DEFAULT_FILES for key, value in _conf(name).items()}
    settings |= _changed(config, usual)
    if settings.pop("options", None):
        options = [options_of(text) for text in as_list(config["options"])]
        for name in dict.fromkeys(chain.from_iterable(options)):
            values = [value_text(stated.get(name, "default")) for stated in options]
            settings[name] = ", ".join(dict.fromkeys(map(str, values)))
    if (precision := _precision_name(config["precision"])) != _DEFAULT_PRECISION:
        settings["precision"] = precision
    elsewhere = {name: value for name, value in launcher.items() if plain.get(name, value) != value}
    return settings | {f"launcher.{name}": _written(value) for name, value in elsewhere.items()}


def _precision_name(precision: Mapping[str, Any]) -> str:
    """The name of a precision, or its values if it has none."""
    for file in sorted((conf_directory() / "precision").glob("*.yaml")):
        if yaml.safe_load(file.read_text(encoding="utf-8")) == dict(precision):
            return file.stem
    return " ".join(f"{name}={value}" for name, value in precision.items())


def _written(value: Any) -> str:
    """A value, a list of values, or a list of points, in Hydra's grammar."""
    items = as_list(value)
    text = ",".join(map(_item, items))
    return f"[{text}]" if any(isinstance(item, Mapping) for item in items) else text


def _item(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{axis}:{_item(size)}" for axis, size in value.items()) + "}"
    if value is None:
        return "null"
    text = str(value)
    if not isinstance(value, str) or _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
