"""Check the user's own files (`--config-dir`) before Hydra reads them. Each error names the file.

Hydra's own errors span several lines, describe its internals and omit the file. An axis accepts any value until all
files are merged; by then the origin of a wrong value is unknown.
"""

import io
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException, ValidationError

from harness.bounded_file import MOST_YAML_BYTES, read_text
from harness.case import AXES
from harness.config.axes import check_axis
from harness.config.chosen_files import Chosen, chosen
from harness.config.files import keys
from harness.config.launcher import check_launcher
from harness.config.overrides import nearest
from harness.config.schema import Launcher, SweepSchema
from harness.config.settings import CHECKS, check_parts
from harness.config.together import check_together
from harness.config.wrong_type import takes
from harness.errors import UsageError

_HEADER = re.compile(r"\A(?:\s*#.*\n)*?\s*#\s*@package\s+(\S+)")
_GLOBAL = "_global_"


def check_own_files(directory: Path, overrides: Sequence[str], asked: Collection[str]) -> None:
    """Raise UsageError for the first selected file in `directory` that is invalid by itself.

    `overrides` select the files. The command line sets the axes in `asked`, so their values in files are not checked.
    """
    for file in chosen(directory, overrides, _read):
        try:
            _check(file, asked)
        except UsageError as error:
            raise UsageError(f"{file.path}: {error}") from error


def _read(path: Path) -> tuple[str, DictConfig]:
    """The file's package and its settings. Raises UsageError if the file is not a readable mapping of settings."""
    try:
        text = read_text(path, MOST_YAML_BYTES)
        held = OmegaConf.load(io.StringIO(text))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error}): save it as that") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{path}{line} is no YAML: {error.problem}") from error
    except (yaml.YAMLError, OSError, OmegaConfBaseException) as error:
        raise UsageError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(held, DictConfig):
        raise UsageError(f"{path} is a list: it takes settings, each `key: value`")
    for key in held:
        if not isinstance(key, str):
            raise UsageError(f"{path}: unknown key {key!r}: a setting has a name")
    header = _HEADER.match(text)
    return (header.group(1) if header else ""), held


def _check(file: Chosen, asked: Collection[str]) -> None:
    package = file.package or file.group.replace("/", ".")
    at = "" if package == _GLOBAL else package
    settings = OmegaConf.masked_copy(file.held, [str(key) for key in file.held if key != "defaults"])
    whole = OmegaConf.structured(SweepSchema)
    if at and at.partition(".")[0] not in whole:
        raise UsageError(f"its settings would be those of '{at}', which has none: begin it with `# @package {_GLOBAL}`")
    try:
        OmegaConf.update(whole, at, settings, merge=True) if at else whole.merge_with(settings)
    except OmegaConfBaseException as error:
        raise UsageError(_told(error, settings, at)) from error
    _check_values(whole, at or None, settings, asked)


def _told(error: OmegaConfBaseException, settings: DictConfig, at: str) -> str:
    key = str(error.full_key)
    if isinstance(error, ConfigKeyError):
        return f"unknown key '{key}'{nearest(key, keys(for_sweep=True))}"
    given = OmegaConf.select(settings, key.removeprefix(f"{at}."), throw_on_resolution_failure=False)
    wanted = takes(key)
    if isinstance(error, ValidationError) and wanted:
        return f"{key}={given}: it takes {wanted}"
    return f"{key}: {' '.join(str(error).partition('full_key:')[0].split())}"


def _check_values(whole: DictConfig, at: str | None, settings: DictConfig, asked: Collection[str]) -> None:
    """Check the values that are set, neither missing (`???`) nor interpolated (`${…}`)."""
    given = {name: value for name, value in _plain(settings).items() if at is None}
    for axis in AXES:
        if axis in given and axis not in asked:
            check_axis(axis, given[axis])
    for name, value in _plain(whole).items():
        if name in given and name in CHECKS:
            CHECKS[name](value)
    if "together" in given:
        check_together(given["together"], {})
    check_parts(_plain(whole.precision))
    check_launcher(Launcher(**_plain(whole.launcher)))


def _plain(settings: DictConfig) -> dict[str, Any]:
    there = [str(key) for key in settings if not OmegaConf.is_missing(settings, key)]
    own = [key for key in there if not OmegaConf.is_interpolation(settings, key)]
    plain = OmegaConf.to_container(OmegaConf.masked_copy(settings, own), resolve=False)
    return {str(key): value for key, value in plain.items()} if isinstance(plain, dict) else {}
