"""Compose and check a configuration from `conf/`, the user's own directory and the command line, or compare two."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.case import AXES
from harness.config.axes import Point, check_axes, check_axis, check_points
from harness.config.files import (
    PAPER,
    as_yaml,
    check_paper,
    check_user_files,
    composed,
    conf_directory,
    groups,
    keys,
    scaled,
    type_error_message,
)
from harness.config.overrides import key_of, split
from harness.config.schema import (
    HERE,
    Launcher,
    Precision,
    SweepConfig,
    check_bytes,
    check_grow,
    check_launcher,
    check_mask_settings,
    check_out,
    check_precision,
    check_retry,
    check_seconds,
    check_seed,
    threads_of,
)
from harness.errors import UsageError
from harness.former_names import present_option


def compose(
    overrides: Sequence[str], config_dir: Path | None = None, for_sweep: bool = False, usual: Sequence[str] = ()
) -> SweepConfig:
    """Compose and check a configuration. Raises UsageError, with one line, for every user error.

    Settings that only a sweep supports, such as `grow` and `retry`, are unknown keys unless `for_sweep`. `usual` are a
    command's own overrides, for keys that `overrides` do not set.
    """
    try:
        return _compose(overrides, config_dir, for_sweep, usual)
    except RecursionError as error:
        raise UsageError("too many brackets within brackets") from error


def _compose(overrides: Sequence[str], config_dir: Path | None, for_sweep: bool, usual: Sequence[str]) -> SweepConfig:
    directories = [conf_directory()]
    if config_dir is not None:
        if not config_dir.is_dir():
            raise UsageError(f"--config-dir {config_dir}: no such directory")
        directories.append(config_dir)
    overrides, usual = ([present_option(option) for option in options] for options in (overrides, usual))
    given, scale = overrides, list[str]()
    if for_sweep:
        overrides, scale = scaled(overrides, directories)
    asked = {key_of(override) for override in overrides}
    overrides = [*(override for override in usual if key_of(override) not in asked), *overrides]
    axes, rest = split(overrides, keys(for_sweep), groups(directories, for_sweep))
    rest += scale
    if config_dir is not None:
        check_user_files(config_dir, rest, axes)
    config = composed(rest, config_dir)
    try:
        for axis, values in axes.items():
            OmegaConf.update(config, axis, values, merge=False)
        plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise UsageError(type_error_message(error, overrides)) from error
    OmegaConf.update(config, "retry", None)  # which cases are retried now is not part of how a run is made
    points = _check_points(config, plain, axes)
    paper = check_paper(plain[PAPER], given)
    OmegaConf.update(config, PAPER, paper or None, merge=False)
    launcher = check_launcher(Launcher(**plain["launcher"]))
    _check_elsewhere(launcher, plain["wait"], overrides)
    if launcher.cluster != HERE and plain["threads"] is None:
        plain["threads"] = threads_of(launcher)
    checked = check_axes({axis: plain[axis] for axis in AXES})
    check_mask_settings(asked, checked)
    return SweepConfig(
        axes=checked,
        points=points,
        paper=paper,
        precision=check_precision(Precision(**plain["precision"])),
        out=check_out(plain["out"]),
        seed=check_seed(plain["seed"]),
        memory_limit=check_bytes(plain["memory_limit"]),
        compile_timeout_s=check_seconds(plain["compile_timeout_s"]),
        grow=_check_grow(plain["grow"], points, paper),
        retry=check_retry(plain["retry"]),
        launcher=launcher,
        wait=plain["wait"],
        yaml=as_yaml(config),
    )


def _check_points(config: DictConfig, plain: dict[str, Any], asked: dict[str, Any]) -> tuple[Point, ...]:
    """The checked `points`. Their values are also written to the axes, in both forms of the configuration."""
    points = check_points(plain["points"], {axis: check_axis(axis, asked[axis]) for axis in asked if axis in AXES})
    for axis in points[0] if points else ():
        plain[axis] = list(dict.fromkeys(point[axis] for point in points))
        OmegaConf.update(config, axis, plain[axis], merge=False)
    if points:
        OmegaConf.update(config, "points", list(points), merge=False)
    return points


def _check_grow(axis: str | None, points: Sequence[Point], paper: dict[str, Any]) -> str | None:
    """Check as `check_grow` does. Raises UsageError too if `axis` is one of the axes of `points`.

    Which sizes go with one beyond the last point is not defined.
    """
    if check_grow(axis) is not None and points and axis in points[0]:
        whose = f" of paper={paper['name']}" if paper else ""
        sizes = " ".join(f"{name}=…" for name in points[0])
        raise UsageError(
            f"grow={axis}: none of points{whose} says what goes with a larger {axis}: leave grow out, or give "
            f"points=null {sizes}"
        )
    return axis


def _check_elsewhere(launcher: Launcher, wait: bool, overrides: Sequence[str]) -> None:
    """Raise UsageError for settings of a cluster when trials run on this machine: they would have no effect."""
    if launcher.cluster != HERE:
        return
    idle = [text for text in overrides if text.lstrip("+").startswith("launcher.") and "launcher.cluster=" not in text]
    idle += [] if wait else ["wait=false"]
    if idle:
        raise UsageError(f"{idle[0]} says how to measure elsewhere: give launcher=slurm or launcher=processes too")


# These settings say where a sweep writes, which part of the work it does now, and what others have published. None of
# them affects what is measured or how.
_NOT_COMPARED = ("out", "retry", "launcher", "wait", "paper")
_COMPARED = ("paper.name", "paper.scale")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the differences between the configuration that a run was created with and another.

    Each is a text such as `seq_len=64,128 before and 64,256 now`. A single value equals a list of it alone. A setting
    added after the run was created counts as unchanged if it is null now.
    """
    then, today = dict(_flattened(before)), dict(_flattened(now))
    names = [name for name in dict.fromkeys([*then, *today]) if _is_compared(name)]
    return [
        f"{name}={_as_text(then.get(name))} before and {_as_text(today.get(name))} now"
        for name in names
        if listed_names(then.get(name)) != listed_names(today.get(name))
    ]


def _is_compared(name: str) -> bool:
    return name in _COMPARED or name.partition(".")[0] not in _NOT_COMPARED


def _flattened(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def listed_names(value: Any) -> list[Any]:
    """`value` as a list, so that a single value equals a list of it alone."""
    return value if isinstance(value, list) else [value]


def _as_text(value: Any) -> str:
    return ",".join("null" if item is None else str(item) for item in listed_names(value))
