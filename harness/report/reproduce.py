"""The command that measures a run's cases again, from the configuration that the run keeps."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from harness.config import compose
from harness.config.difference import listed
from harness.config.files import conf_directory
from harness.errors import UsageError

# What Hydra's grammar reads as a value of its own without quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_.:/+@%-]+")

# Keys that came later: a configuration of before does without them, as if they had their defaults.
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
# What says where and how far it was measured, and nothing of what.
_LEFT_OUT = ("out", "retry", "launcher", "wait", "precision", "paper")


def command(config: Mapping[str, Any]) -> str:
    """`python -m harness sweep` with what differs from the defaults, quoted for a shell.

    `out` is left out: a run has its own directory. Raises KeyError for a configuration without one of the keys that
    there have always been.
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
    """What asks for the paper's setting, empty without one."""
    if not isinstance(paper, Mapping) or "name" not in paper:
        return []
    return [f"paper={paper['name']}", *([f"scale={paper['scale']}"] if paper.get("scale") else [])]


def _usual(preset: Sequence[str]) -> str:
    """The configuration that differences are told from: of a paper that is not ours, the default one."""
    try:
        return compose(preset, for_sweep=True).yaml
    except UsageError:
        return compose([], for_sweep=True).yaml


def _precision(given: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """The named precision that the given one is, or else how it differs from the default."""
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
