"""Compose and check a configuration from `conf/`, the user's own directory and the command line, or compare two."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.core.model import sequence_lengths
from harness.core.model.errors import UsageError
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.layer_options import with_options
from harness.core.model.sweep_axes import AXES

from . import hydra_adapter, schema
from .key_value_options import SettingError, check_axes, check_axis, check_points, points_of_head_dim, present_option
from .schema import HEAD_DIM, Launcher, SweepConfig


def compose(
    overrides: Sequence[str], config_dir: Path | None = None, for_sweep: bool = False, usual: Sequence[str] = ()
) -> SweepConfig:
    """Compose and check a configuration. Raises UsageError, with one line, for every user error.

    Settings that only a sweep supports, such as `grow` and `retry`, are unknown keys unless `for_sweep`. `usual` are a
    command's own overrides, for keys that `overrides` do not set.
    """
    if config_dir is not None and not config_dir.is_dir():
        raise UsageError(f"--config-dir {config_dir}: no such directory")
    for place in entries("OVERRIDES"):
        overrides, usual = referenced(place)(overrides, usual)
    options = [present_option(option) for option in overrides]
    typed = with_options(options)
    hydra_adapter.check_unrepeated(typed)
    unscaled, scale = hydra_adapter.scaled(typed, config_dir) if for_sweep else (typed, list[str]())
    by_key = {hydra_adapter.key_of(text): text for text in unscaled}
    set_here = {*by_key, *(["d_model"] if HEAD_DIM in by_key else ())}
    usual = [text for text in map(present_option, usual) if hydra_adapter.key_of(text) not in set_here]
    values, choices = hydra_adapter.split(
        [*usual, *unscaled], schema.keys(for_sweep), hydra_adapter.groups(config_dir, for_sweep)
    )
    if HEAD_DIM in values and "d_model" in values:
        raise UsageError(f"{by_key[HEAD_DIM]} sets d_model = num_heads × head_dim: leave {by_key['d_model']} out")
    head_dim = values.pop(HEAD_DIM, None)
    # The sizes of the presets in `conf/` are for a CPU. A preset of the user's own has the sizes that its file says.
    presets = {f"preset={name}" for name in hydra_adapter.groups(None, for_sweep)["preset"]}
    chosen = {hydra_adapter.key_of(choice) for choice in {*choices} - presets - {"device=cpu"}}
    if "device" in chosen and not chosen & {"shape", "preset", schema.PAPER}:
        choices.append("shape=gpu")
    files = hydra_adapter.UserFiles(config_dir, [*choices, *scale])
    config = files.compose([*choices, *scale])
    try:
        for key, value in values.items():
            OmegaConf.update(config, key, value, merge=False)
        plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        key = str(error.full_key or "")
        text = hydra_adapter.one_line(str(error).partition("full_key:")[0])
        raise UsageError(f"{hydra_adapter.one_line(by_key.get(key, key))}: {text}" if key else text) from error
    if head_dim is not None:
        plain["points"] = points_of_head_dim(head_dim, plain["num_heads"], plain["points"])
    try:
        as_typed = {"overrides": options, **({"config_dir": str(config_dir)} if config_dir else {})}
        return _checked(config, plain, values, by_key, typed, as_typed)
    except SettingError as error:
        if any(f"{key}.".startswith(f"{error.key}.") for key in by_key):
            raise
        raise UsageError(f"{files.source()}{error}") from error


def _checked(
    config: DictConfig,
    plain: dict[str, Any],
    values: Mapping[str, Any],
    by_key: Mapping[str, str],
    typed: Sequence[str],
    as_typed: Mapping[str, Any],
) -> SweepConfig:
    """The checked configuration. `typed` are the user's overrides; `by_key` has them by key, and `values` their values.

    A new run stores `as_typed` too.

    Raises SettingError for an invalid setting, and UsageError for settings that do not go together.
    """
    points = check_points(plain["points"], {axis: check_axis(axis, values[axis]) for axis in values if axis in AXES})
    if points:
        # The values of the points are also those of the axes.
        of_points = {axis: list(dict.fromkeys(point[axis] for point in points)) for axis in points[0]}
        plain |= of_points
        config.update({"points": list(points), **of_points})
    paper = hydra_adapter.check_paper(plain[schema.PAPER], typed)
    # Which cases are retried now is not part of how a run is made.
    config.update({schema.PAPER: paper or None, "retry": None})
    text = OmegaConf.to_yaml(config)
    more = {"yaml": text, "record": text + yaml.safe_dump(as_typed, allow_unicode=True, sort_keys=False), "axes": {}}
    settings = {name: value for name, value in plain.items() if name not in AXES}
    sweep = schema.checked({**settings, **more, "points": points, "paper": paper}, by_key)
    _check_elsewhere(sweep.launcher, sweep.wait, by_key.values())
    if sweep.launcher.cluster != schema.HERE and plain["threads"] is None:
        plain["threads"] = sweep.launcher.cpus_per_task  # the CPUs of a node are unknown here
        if plain["threads"] is None:
            raise UsageError(
                f"launcher={sweep.launcher.cluster} needs threads=N or launcher.cpus_per_task=N: how many CPUs to use"
            )
    missing = OmegaConf.missing_keys(config)
    axes = check_axes({axis: plain[axis] for axis in AXES if axis not in missing})
    if missing:
        raise UsageError(schema.no_value(min(missing)))
    schema.check_effects(by_key, axes)
    if sweep.baseline is not None and sweep.baseline not in axes["impl"]:
        raise UsageError(f"baseline={sweep.baseline} is not measured: add it to impl={','.join(axes['impl'])}")
    if points and sweep.grow in points[0]:
        # Which sizes go with one beyond the last point is not defined.
        whose = f" of paper={paper['name']}" if paper else ""
        sizes = " ".join(f"{name}=…" for name in points[0])
        raise UsageError(
            f"grow={sweep.grow}: none of points{whose} says what goes with a larger {sweep.grow}: leave grow out, "
            f"or give points=null {sizes}"
        )
    # A run whose file of lengths has changed since is another run.
    digests = sequence_lengths.digests_of_files(axes["lengths"])
    of_files = yaml.safe_dump({"lengths_files": digests}) if digests else ""
    return replace(sweep, axes=axes, yaml=sweep.yaml + of_files, record=sweep.record + of_files)


def _check_elsewhere(launcher: Launcher, wait: bool, overrides: Iterable[str]) -> None:
    """Raise UsageError for settings of a cluster when trials run on this machine: they would have no effect."""
    if launcher.cluster != schema.HERE:
        return
    idle = [text for text in overrides if text.startswith("launcher.") and "launcher.cluster=" not in text]
    idle += [] if wait else ["wait=false"]
    if idle:
        raise UsageError(f"{idle[0]} says how to measure elsewhere: give launcher=slurm or launcher=processes too")


# The configuration in a run's config.yaml. A damaged file may hold only a part.
StoredConfig = Mapping[str, Any]
# These settings say where a sweep writes, what it reports, which work it does now, and what others have published. None
# of them affects what is measured or how.
_NOT_COMPARED = ("out", "retry", "baseline", "launcher", "wait", "paper", "overrides", "config_dir")
_COMPARED = ("paper.name", "paper.scale")


def differences(before: StoredConfig, now: StoredConfig) -> list[str]:
    """List the differences between the configuration that a run was created with and another.

    Each is a text such as `seq_len=64,128 before and 64,256 now`. A single value equals a list of it alone. A setting
    added after the run was created counts as unchanged if it is null now.
    """
    then, today = dict(_flattened(before)), dict(_flattened(now))
    changes = []
    for name in dict.fromkeys([*then, *today]):
        old, new = _as_text(then.get(name)), _as_text(today.get(name))  # 67108864 may be stored as a text
        is_compared = name in _COMPARED or name.partition(".")[0] not in _NOT_COMPARED
        if is_compared and old != new:
            changes.append(f"{name}={old} before and {new} now")
    return changes


def _flattened(config: StoredConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def as_list(value: Any) -> list[Any]:
    """`value` as a list, so that a single value equals a list of it alone. A damaged file's list may hold itself."""
    return value if isinstance(value, list) else [value]


def _as_text(value: Any) -> str:
    return ",".join("null" if item is None else str(item) for item in as_list(value))
