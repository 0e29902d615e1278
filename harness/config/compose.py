"""Compose `conf/`, the user's own directory and the command line into one checked configuration."""

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.case import AXES, FAILURES, GROWING
from harness.config.axes import check_axes, check_axis, flat
from harness.config.launcher import HERE, check_launcher, threads_of
from harness.config.overrides import split
from harness.config.paper import PAPER, SCALE, check_paper, scaled
from harness.config.schema import Launcher, Precision, SweepConfig, SweepSchema
from harness.config.together import Point, check_together
from harness.config.wrong_type import told
from harness.errors import UsageError, did_you_mean

_PACKAGE = Path(__file__).resolve().parents[1]
# Less, and no layer's process would come to its first line.
LEAST_MEMORY = 16 * 2**20
_SWEEPS_ALONE = ("grow", "retry", "launcher", "wait", "together", PAPER)
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def conf_directory() -> Path:
    """Where `conf/` lies: inside the package once installed from a wheel, beside it in a checkout."""
    inside = _PACKAGE / "conf"
    return inside if inside.is_dir() else _PACKAGE.parent / "conf"


def compose(overrides: Sequence[str], config_dir: Path | None = None, for_sweep: bool = False) -> SweepConfig:
    """Compose and check. Raises UsageError, with one line, for anything a user can get wrong.

    What only a sweep can do, as `grow` and `retry`, is unknown to anything else.
    """
    try:
        return _compose(overrides, config_dir, for_sweep)
    except RecursionError as error:
        raise UsageError("too many brackets within brackets") from error


def _compose(overrides: Sequence[str], config_dir: Path | None, for_sweep: bool) -> SweepConfig:
    directories = [conf_directory()]
    if config_dir is not None:
        if not config_dir.is_dir():
            raise UsageError(f"--config-dir {config_dir}: no such directory")
        directories.append(config_dir.resolve())
    given, scale = overrides, list[str]()
    if for_sweep:
        overrides, scale = scaled(overrides, directories)
    axes, rest = split(overrides, _keys(for_sweep), _groups(directories, for_sweep))
    rest += scale
    if config_dir is not None:
        quoted = str(config_dir.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        rest.append(f"hydra.searchpath=['file://{quoted}']")
    config = _hydra(rest)
    try:
        for axis, values in axes.items():
            OmegaConf.update(config, axis, values, merge=False)
        plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise UsageError(told(error, overrides)) from error
    OmegaConf.update(config, "retry", None)  # what is opened again today is no part of how the run is made
    together = _check_together(config, plain, axes)
    paper = check_paper(plain[PAPER], given)
    OmegaConf.update(config, PAPER, paper or None, merge=False)
    launcher = check_launcher(Launcher(**plain["launcher"]))
    _check_elsewhere(launcher, plain["wait"], overrides)
    if launcher.cluster != HERE and plain["threads"] is None:
        plain["threads"] = threads_of(launcher)
    precision = _check_precision(Precision(**plain["precision"]))
    return SweepConfig(
        axes=check_axes({axis: plain[axis] for axis in AXES}),
        together=together,
        paper=paper,
        precision=precision,
        out=_check_out(plain["out"]),
        seed=_check_seed(plain["seed"]),
        memory_limit=_bytes(plain["memory_limit"]),
        compile_timeout_s=_check_seconds("compile_timeout_s", plain["compile_timeout_s"]),
        grow=_check_grow(plain["grow"]),
        retry=_check_retry(plain["retry"]),
        launcher=launcher,
        wait=plain["wait"],
        yaml=OmegaConf.to_yaml(config),
    )


def _check_together(config: DictConfig, plain: dict[str, Any], asked: dict[str, Any]) -> tuple[Point, ...]:
    """The points of `together`; their values stand on the axes too, in both forms of the configuration."""
    points = check_together(plain["together"], {axis: check_axis(axis, asked[axis]) for axis in asked if axis in AXES})
    for axis in points[0] if points else ():
        plain[axis] = list(dict.fromkeys(point[axis] for point in points))
        OmegaConf.update(config, axis, plain[axis], merge=False)
    if points:
        OmegaConf.update(config, "together", list(points), merge=False)
    return points


def _hydra(overrides: list[str]) -> DictConfig:
    ConfigStore.instance().store(name="schema", node=SweepSchema)
    try:
        with initialize_config_dir(str(conf_directory()), version_base="1.3"):
            return hydra_compose("sweep", overrides=overrides)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        raise UsageError(told(error, overrides)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"a file of --config-dir is not UTF-8: {error}") from error


def _keys(for_sweep: bool) -> list[str]:
    top = [field.name for field in fields(SweepSchema) if for_sweep or field.name not in _SWEEPS_ALONE]
    parts = {"precision": Precision, **({"launcher": Launcher} if for_sweep else {})}
    top += [SCALE] if for_sweep else []
    return [*top, *(f"{name}.{field.name}" for name, part in parts.items() for field in fields(part))]


def _groups(directories: Sequence[Path], for_sweep: bool) -> dict[str, list[str]]:
    """The groups of files to choose from, and each one's options."""
    groups: dict[str, list[str]] = {}
    for directory in directories:
        for group in sorted(path for path in directory.iterdir() if path.is_dir()):
            if group.name in _SWEEPS_ALONE and not for_sweep:
                continue
            groups.setdefault(group.name, []).extend(sorted(file.stem for file in group.glob("*.yaml")))
    return groups


def _check_elsewhere(launcher: Launcher, wait: bool, overrides: Sequence[str]) -> None:
    """Raise UsageError for what is asked of a cluster where none is asked for: it would do nothing."""
    if launcher.cluster != HERE:
        return
    idle = [text for text in overrides if text.lstrip("+").startswith("launcher.") and "launcher.cluster=" not in text]
    idle += [] if wait else ["wait=false"]
    if idle:
        raise UsageError(f"{idle[0]} says how to measure elsewhere: give launcher=slurm or launcher=processes too")


def _check_precision(precision: Precision) -> Precision:
    for name, value in asdict(precision).items():
        if name == "patience_s" and value == 0:
            continue  # nobody need wait
        if not 0 < value < float("inf"):
            raise UsageError(f"precision.{name}={value}: it takes a number above 0")
    if precision.max_rounds < precision.min_rounds:
        raise UsageError(
            f"precision.max_rounds={precision.max_rounds} is below precision.min_rounds={precision.min_rounds}"
        )
    return precision


def _check_out(out: str | None) -> Path | None:
    if out is None:
        return None
    if not out:
        raise UsageError("out=: name a directory")
    # No file system takes a NUL, no terminal half of a surrogate pair, and what is said of a run is one line.
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in out):
        raise UsageError(f"out={out!a}: a control character, or a byte that is not UTF-8, is in it")
    return Path(out)


def _check_seconds(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise UsageError(f"{name}={value}: it takes a number above 0")
    return value


def _check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed={seed}: it takes whole numbers from 0 to 2^63 - 1")
    return seed


def _check_grow(axis: str | None) -> str | None:
    if axis is not None and axis not in GROWING:
        raise UsageError(f"grow={axis}{did_you_mean(axis, GROWING)}")
    return axis


def _check_retry(statuses: Any) -> tuple[str, ...]:
    chosen = tuple(map(str, [] if statuses is None else flat(statuses)))
    for status in chosen:
        if status not in FAILURES:
            raise UsageError(f"retry={status}{did_you_mean(status, FAILURES)}")
    return chosen


def _bytes(text: str | None) -> int | None:
    """`"8GiB"` or a plain number of bytes."""
    if text is None:
        return None
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        value = int(float(text.removesuffix(unit)) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        value = 0
    if not LEAST_MEMORY <= value < 2**62:
        raise UsageError(f"memory_limit={text}: give bytes, or a number with {', '.join(_UNITS)}; 16MiB at least")
    return value
