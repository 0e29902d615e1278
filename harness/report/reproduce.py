"""The command that measures a run's cases again, from the configuration stored with the run."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from harness.config import compose
from harness.config.difference import listed
from harness.config.files import conf_directory
from harness.errors import UsageError

# Values that Hydra's grammar reads as one value without quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_.:/+@%-]+")

# Keys of later versions. An older configuration without them counts as having their defaults.
_LATER = (
    "mask",
    "real_share",
    "source_len",
    "compile_timeout_s",
    "grow",
    "retry",
    "launcher",
    "wait",
    "together",
    "paper",
)
# Keys about where and how far a run measured, not what. `command` adds `precision` and `paper` separately.
_LEFT_OUT = ("out", "retry", "launcher", "wait", "precision", "paper")


def command(config: Mapping[str, Any]) -> str:
    """Return `python -m harness sweep` with the options that differ from the defaults, quoted for a shell.

    `out` is left out, because a run has its own directory. Raises KeyError if the configuration lacks a key that has
    existed since the first version.
    """
    preset = _preset(config.get("paper"))
    usual = yaml.safe_load(_usual(preset))
    config = {**{key: usual[key] for key in _LATER}, **config}
    changed = [
        f"{key}={_written(config[key])}"
        for key in usual
        if key not in _LEFT_OUT and listed(config[key]) != listed(usual[key])
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
    return ",".join(_quoted(item) for item in listed(value))


def _point(point: Mapping[str, Any]) -> str:
    return "{" + ",".join(f"{axis}:{_quoted(value)}" for axis, value in point.items()) + "}"


def _quoted(value: Any) -> str:
    if value is None:
        return "null"
    text = str(value)
    if not isinstance(value, str) or _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
