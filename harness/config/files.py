"""The configuration files and settings to choose from, and their composition by Hydra."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from harness.config.paper import PAPER, SCALE
from harness.config.schema import Launcher, Precision, SweepSchema
from harness.config.wrong_type import told
from harness.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
_SWEEPS_ALONE = ("grow", "retry", "launcher", "wait", "together", PAPER)


def conf_directory() -> Path:
    """The location of `conf/`: inside the package if installed from a wheel, beside the package in a checkout."""
    inside = _PACKAGE / "conf"
    return inside if inside.is_dir() else _PACKAGE.parent / "conf"


def keys(for_sweep: bool) -> list[str]:
    """The names of all settings. Those that only a sweep supports, such as `grow`, are included only `for_sweep`."""
    top = [field.name for field in fields(SweepSchema) if for_sweep or field.name not in _SWEEPS_ALONE]
    parts = {"precision": Precision, **({"launcher": Launcher} if for_sweep else {})}
    top += [SCALE] if for_sweep else []
    return [*top, *(f"{name}.{field.name}" for name, part in parts.items() for field in fields(part))]


def groups(directories: Sequence[Path], for_sweep: bool) -> dict[str, list[str]]:
    """The groups of files to choose from, and the options of each group.

    The first directory defines all groups. Later directories only add options; their other content is ignored.
    """
    first = sorted(path.name for path in directories[0].iterdir() if path.is_dir())
    return {
        group: [file.stem for directory in directories for file in sorted((directory / group).glob("*.yaml"))]
        for group in first
        if for_sweep or group not in _SWEEPS_ALONE
    }


def composed(overrides: list[str], config_dir: Path | None) -> DictConfig:
    """The configuration that Hydra composes from `conf/`, `config_dir` and the overrides.

    Raises UsageError if Hydra rejects a file or an override.
    """
    if config_dir is not None:
        quoted = str(config_dir.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        overrides = [*overrides, f"hydra.searchpath=['file://{quoted}']"]
    ConfigStore.instance().store(name="schema", node=SweepSchema)
    try:
        with initialize_config_dir(str(conf_directory()), version_base="1.3"):
            return hydra_compose("sweep", overrides=overrides)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        raise UsageError(told(error, overrides)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"a file of --config-dir is not UTF-8: {error}") from error
