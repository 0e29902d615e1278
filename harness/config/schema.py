"""The settings of a sweep: their schema for Hydra, the checked configuration, and the check of each setting.

An invalid value is an error of one line. Options without effect are errors too, instead of being ignored silently.
"""

import math
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from harness.case import AXES, FAILURES, GROWING, SETTINGS
from harness.config.axes import flattened
from harness.errors import UsageError, did_you_mean
from harness.former_names import present_status


@dataclass
class Precision:
    """How precisely to measure a case, and for how long at most. Times are in seconds.

    The interval of a case's time is checked from `min_rounds` trials on. Once it is within ± `target` of the time,
    half as many trials again confirm it, and the case stops. If `min_rounds` = `max_rounds`, nothing is checked or
    confirmed. At the latest a case stops after `max_rounds` trials, or after `case_s` spent in its trials.

    One trial samples for `trial_s` and times out after `timeout_s`. Cases that were disturbed in all their rounds are
    measured again in quiet moments. The sweep waits `patience_s` in all for these moments.
    """

    target: float = MISSING
    min_rounds: int = MISSING
    max_rounds: int = MISSING
    trial_s: float = MISSING
    timeout_s: float = MISSING
    case_s: float = MISSING
    patience_s: float = MISSING


@dataclass
class Launcher:
    """Where trials run: on this machine (`cluster` is `here`), or in shards, each a Slurm job or a process.

    Cases that differ along one of the axes `apart` are not compared with each other, and may be in different shards.
    `time` is in minutes. A shard that reports nothing for `silence_s` seconds counts as dead. A shard that has not
    started after `queue_s` seconds is abandoned. In both cases another job gets the unfinished cases, up to `attempts`
    jobs in all.
    """

    cluster: str = "here"
    partition: str | None = None
    account: str | None = None
    time: int = 240
    gres: str | None = None
    cpus_per_task: int | None = None
    exclusive: bool = False
    array_parallelism: int = 16
    setup: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=lambda: list(SETTINGS))
    attempts: int = 3
    silence_s: float = 1800.0
    queue_s: float = 86400.0


@dataclass
class SweepSchema:
    """The content of `conf/sweep.yaml`: the axes (a value or a list each), and the settings of the whole sweep."""

    impl: Any = MISSING
    seq_len: Any = MISSING
    d_model: Any = MISSING
    num_heads: Any = MISSING
    batch_size: Any = MISSING
    mode: Any = MISSING
    dtype: Any = MISSING
    device: Any = MISSING
    threads: Any = None
    allocator: Any = MISSING
    mask: Any = MISSING
    padding_fraction: Any = MISSING
    kv_len: Any = MISSING
    points: Any = None
    paper: Any = None
    precision: Precision = field(default_factory=Precision)
    out: str | None = None
    seed: int = 0
    memory_limit: str | None = None
    compile_timeout_s: float = 900.0
    grow: str | None = None
    retry: Any = None
    launcher: Launcher = field(default_factory=Launcher)
    wait: bool = True
    # Former names, which a user's own files may still use: see `harness.former_names`.
    real_share: Any = None
    source_len: Any = None
    together: Any = None


@dataclass(frozen=True)
class SweepConfig:
    """A checked configuration.

    `points` are points along some axes, each with a value for every one of these axes. The points are combined
    with all other axes. In `axes` their values occur too, but not which values belong together. A published setting
    and its published results are in `paper`, which is empty without one.

    `memory_limit` is in bytes; None means most of the memory that is free at the start. A trial that compiles, and is
    not timed, may take `compile_timeout_s` seconds. Sizes along the axis `grow` are doubled until a layer fails.
    A continued sweep re-runs the cases whose status is in `retry`. Without `wait`, the command submits the shards and
    ends.
    """

    axes: dict[str, tuple[Any, ...]]
    points: tuple[dict[str, Any], ...]
    paper: dict[str, Any]
    precision: Precision
    out: Path | None
    seed: int
    memory_limit: int | None
    compile_timeout_s: float
    grow: str | None
    retry: tuple[str, ...]
    launcher: Launcher
    wait: bool
    yaml: str


HERE, SLURM, PROCESSES = "here", "slurm", "processes"
# Lower limits. With `time` below 5 minutes, submitit ends a job before anything is measured.
_LEAST = {"time": 5, "cpus_per_task": 1, "array_parallelism": 1, "attempts": 1}
_SECONDS = ("silence_s", "queue_s")


def check_launcher(launcher: Launcher) -> Launcher:
    """Return `launcher` unchanged. Raises UsageError for the first invalid setting."""
    if launcher.cluster not in (HERE, SLURM, PROCESSES):
        known = (HERE, SLURM, PROCESSES)
        raise UsageError(f"launcher.cluster={launcher.cluster}{did_you_mean(launcher.cluster, known)}")
    for name, least in _LEAST.items():
        value = getattr(launcher, name)
        if value is not None and value < least:
            raise UsageError(f"launcher.{name}={value}: it takes a whole number from {least} on")
    for name in _SECONDS:
        if not 0 < getattr(launcher, name) < math.inf:
            raise UsageError(f"launcher.{name}={getattr(launcher, name)}: it takes a number above 0")
    for axis in launcher.apart:
        if axis not in AXES:
            raise UsageError(f"launcher.apart: {axis}{did_you_mean(axis, AXES)}")
    return launcher


def threads_of(launcher: Launcher) -> int:
    """The default number of threads: `cpus_per_task`, since the CPUs of a node are unknown here.

    Raises UsageError if `cpus_per_task` is not set.
    """
    if launcher.cpus_per_task is None:
        raise UsageError(
            f"launcher={launcher.cluster} needs threads=N or launcher.cpus_per_task=N: how many CPUs to use"
        )
    return launcher.cpus_per_task


# With less memory, the process of a layer would not reach its first line.
LEAST_MEMORY = 16 * 2**20
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def check_out(out: str | None) -> Path | None:
    """The directory that a sweep writes to, or None if it is not set."""
    if out is None:
        return None
    if not out:
        raise UsageError("out=: name a directory")
    # File systems reject NUL, terminals reject half of a surrogate pair, and messages about a run have one line.
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in out):
        raise UsageError(f"out={out!a}: a control character, or a byte that is not UTF-8, is in it")
    return Path(out)


def check_seed(seed: int) -> int:
    """The seed of weights and inputs."""
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed={seed}: it takes whole numbers from 0 to 2^63 - 1")
    return seed


def check_bytes(text: str | None) -> int | None:
    """The number of bytes in a text such as `"8GiB"`, or in a plain number; None if not set."""
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


def check_seconds(seconds: float) -> float:
    """The time limit of a trial that compiles, in seconds."""
    if not 0 < seconds < float("inf"):
        raise UsageError(f"compile_timeout_s={seconds}: it takes a number above 0")
    return seconds


def check_grow(axis: str | None) -> str | None:
    """The axis along which sizes are doubled, or None."""
    if axis is not None and axis not in GROWING:
        raise UsageError(f"grow={axis}{did_you_mean(axis, GROWING)}")
    return axis


def check_retry(statuses: Any) -> tuple[str, ...]:
    """The statuses of the cases to re-run."""
    chosen = tuple(present_status(str(status)) for status in ([] if statuses is None else flattened(statuses)))
    for status in chosen:
        if status not in FAILURES:
            raise UsageError(f"retry={status}{did_you_mean(status, FAILURES)}")
    return chosen


def check_precision(precision: Precision) -> Precision:
    """Return `precision` unchanged, after checking each part by itself and the two numbers of rounds together."""
    check_parts(asdict(precision))
    if precision.max_rounds < precision.min_rounds:
        raise UsageError(
            f"precision.max_rounds={precision.max_rounds} is below precision.min_rounds={precision.min_rounds}"
        )
    return precision


def check_parts(precision: Mapping[str, float]) -> None:
    """Check parts of a precision, each by itself. Raises UsageError for the first invalid one."""
    for name, value in precision.items():
        if name == "patience_s" and value == 0:
            continue  # waiting is optional
        if not 0 < value < float("inf"):
            raise UsageError(f"precision.{name}={value}: it takes a number above 0")


# By the name of the setting, for checking a single one.
CHECKS: dict[str, Callable[[Any], Any]] = {
    "out": check_out,
    "seed": check_seed,
    "memory_limit": check_bytes,
    "compile_timeout_s": check_seconds,
    "grow": check_grow,
    "retry": check_retry,
}


def check_mask_settings(asked: Collection[str], axes: Mapping[str, Sequence[Any]]) -> None:
    """Raise UsageError for an explicit mask, or fraction of padding, that no case would have.

    `asked` are the axes that the user has set, `axes` the values of all axes. Defaults may be without effect, because
    the user did not choose them.
    """
    if "padding" in axes["mask"]:
        return
    # Without a mask there is no padding, and the key of the case records that.
    if "padding_fraction" in asked and any(axes["padding_fraction"]):
        said = _is_set("padding_fraction", axes)
        raise UsageError(f"{said} says how much of a padded batch is padding: give mask=padding too, or leave it out")
    if "mask" in asked and set(axes["mode"]) == {"decode"}:
        seen = {"none" if source else "causal" for source in axes["kv_len"]}
        if not seen.intersection(axes["mask"]):
            why = "comes after all others" if "causal" in seen else "sees all of a source"
            instead = " or ".join(f"mask={mask}" for mask in sorted(seen))
            said = _is_set("mask", axes)
            raise UsageError(f"{said}: with mode=decode a token {why}: give {instead}, or leave mask out")


def _is_set(axis: str, axes: Mapping[str, Sequence[Any]]) -> str:
    return f"{axis}={','.join(map(str, axes[axis]))}"
