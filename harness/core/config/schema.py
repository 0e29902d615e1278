"""The settings of a sweep, as a typed model that pydantic checks.

An invalid value is an error of one line. Options without effect are errors too, instead of being ignored silently.
"""

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from omegaconf import MISSING
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError

from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.formatting import BYTE_UNITS
from harness.core.model.sweep_axes import AXES, DEFAULTS, EQUAL, FAILURES, GROWING, OF_GPUS, SETTINGS, present_axis

from .key_value_options import SettingError, bytes_in, flattened

HERE, SLURM, PROCESSES = "here", "slurm", "processes"
# With less memory, the process of a layer would not reach its first line.
LEAST_MEMORY = 16 * 2**20
_LONGEST = 300
SCALE, PAPER = "scale", "paper"
# The width of a head, which sets d_model = num_heads × head_dim. It is a key and no axis: a case has d_model.
HEAD_DIM = "head_dim"
# Settings that a command other than `sweep` would ignore.
SWEEPS_ALONE = ("grow", "retry", "launcher", "wait", "points", "baseline", PAPER)


# The text of a ValueError below follows `key=value` in the message.
def _one_of(names: Collection[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(did_you_mean(value, names))
        return value

    return AfterValidator(check)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) else value


def _directory(out: Any) -> Any:
    if out == "":
        raise ValueError(": name a directory")
    # File systems reject NUL, terminals reject half of a surrogate pair, and messages about a run have one line.
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in str(out)):
        raise ValueError(": a control character, or a byte that is not UTF-8, is in it")
    return _text(out)


def _bytes(text: Any) -> int | None:
    number = None if text is None else bytes_in(str(text))
    if text is not None and (number is None or not LEAST_MEMORY <= number < 2**62):
        raise ValueError(f": give bytes, or a number with {', '.join(BYTE_UNITS)}; 16MiB at least")
    return number


def _statuses(stated: Any) -> list[Any]:
    return [str(status) for status in ([] if stated is None else flattened(stated))]


Text = Annotated[str, BeforeValidator(_text)]
Count = Annotated[int, Field(strict=True, ge=1)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


@dataclass
class Precision:
    """How precisely to measure a case, and for how long at most. Times are in seconds.

    The interval of a case's time is checked from `min_rounds` trials on. Once it is within ± `target` of the time,
    half as many trials again confirm it, and the case stops. If `min_rounds` = `max_rounds`, nothing is checked or
    confirmed. At the latest a case stops after `max_rounds` trials, or after `case_s` spent in at least
    `min_rounds` trials.

    One trial samples for `trial_s` and times out after `timeout_s`. Cases that were disturbed in all their rounds are
    measured again in quiet moments. The sweep waits `patience_s` in all for these moments.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    target: Positive
    min_rounds: Count
    max_rounds: Count
    trial_s: Positive
    timeout_s: Positive
    case_s: Positive
    patience_s: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


_AxisName = Annotated[Text, BeforeValidator(present_axis), _one_of(AXES)]


@dataclass
class Launcher:
    """Where trials run: on this machine (`cluster` is `here`), or in shards, each a Slurm job or a process.

    Cases that differ along one of the axes `apart` are not compared with each other, and may be in different shards.
    Layers without an own axis are compared with each of its values, so `options` is not one of them.
    `time` is in minutes. A shard that reports nothing for `silence_s` seconds counts as dead. A shard that has not
    started after `queue_s` seconds is abandoned. In both cases another job gets the unfinished cases, up to `attempts`
    jobs in all.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    cluster: Annotated[Text, _one_of((HERE, SLURM, PROCESSES))] = HERE
    partition: Text | None = None
    account: Text | None = None
    # Below 5 minutes, submitit ends a job before anything is measured.
    time: Annotated[int, Field(strict=True, ge=5)] = 240
    gres: Text | None = None
    cpus_per_task: Count | None = None
    exclusive: Annotated[bool, Strict()] = False
    array_parallelism: Count = 16
    setup: list[Text] = field(default_factory=list)
    apart: list[_AxisName] = field(default_factory=lambda: [axis for axis in SETTINGS if axis != "options"])
    attempts: Count = 3
    silence_s: Positive = 1800.0
    queue_s: Positive = 86400.0


@dataclass(frozen=True)
class SweepConfig:
    """A checked configuration.

    `points` are points along some axes, each with a value for every one of these axes. The points are combined
    with all other axes. In `axes` their values occur too, but not which values belong together. A published setting
    and its published results are in `paper`, which is empty without one.

    `memory_limit` is in bytes; None means most of the memory that is free at the start. A trial that compiles, and is
    not timed, may take `compile_timeout_s` seconds. Sizes along the axis `grow` are doubled until a layer fails.
    The report gives times relative to the layer `baseline`, if any. A continued sweep re-runs the cases whose status is
    in `retry`. Without `wait`, the command submits the shards and
    ends.

    `yaml` is the configuration as text. `record` is what a new run stores: the configuration, and what the user typed.
    """

    axes: dict[str, tuple[Any, ...]]
    points: tuple[dict[str, Any], ...]
    paper: dict[str, Any]
    precision: Precision
    out: Annotated[Path, BeforeValidator(_directory)] | None
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)]
    memory_limit: Annotated[int | None, BeforeValidator(_bytes)]
    compile_timeout_s: Positive
    grow: Annotated[str, BeforeValidator(present_axis), _one_of(GROWING)] | None
    baseline: Text | None
    retry: Annotated[tuple[Annotated[str, _one_of(FAILURES)], ...], BeforeValidator(_statuses)]
    launcher: Launcher
    wait: Annotated[bool, Strict()]
    yaml: str
    record: str


# What the files of `conf/` are merged into, in the order of a run's config.yaml. By default, all usable CPUs are used.
PLAIN = {
    **dict.fromkeys(AXES, MISSING),
    **DEFAULTS,
    "threads": None,
    "points": None,
    "paper": None,
    "precision": {part.name: MISSING for part in fields(Precision)},
    "out": None,
    "seed": 0,
    "memory_limit": None,
    "compile_timeout_s": 900.0,
    "grow": None,
    "baseline": None,
    "retry": None,
    "launcher": asdict(Launcher()),
    "wait": True,
}
_MODEL = TypeAdapter(SweepConfig)
# By the first word of pydantic's name for an error.
_TAKES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "list": "a list of texts",
    "dataclass": "settings, each `key: value`",
    "finite": "a number above 0",
    "path": "a text",
}
_LIMITS = {"greater_than": "above {:g}", "greater_than_equal": "from {:g} on", "less_than": "below {}"}


def checked(settings: Mapping[str, Any], typed: Mapping[str, str]) -> SweepConfig:
    """The settings as a checked configuration. `typed` has what the user typed, by key, for messages.

    Raises SettingError for the first invalid setting.
    """
    try:
        config = _MODEL.validate_python(settings)
    except ValidationError as error:
        first = min(error.errors(), key=lambda problem: problem["input"] == MISSING)
        key, value = ".".join(part for part in first["loc"] if isinstance(part, str)), first["input"]
        if value == MISSING:
            raise UsageError(no_value(key)) from error
        raise SettingError(_message(key, value, first["type"], first.get("ctx", {}), typed), key) from error
    least, most = config.precision.min_rounds, config.precision.max_rounds
    if most < least:
        raise UsageError(f"precision.max_rounds={most} is below precision.min_rounds={least}")
    return config


def no_value(key: str) -> str:
    """The message for a setting without a value."""
    return f"{key} has no value: no file that is chosen says one; give {key}=…"


def _message(key: str, value: Any, kind: str, limits: Mapping[str, Any], typed: Mapping[str, str]) -> str:
    """What is wrong with a setting, from the kind of pydantic's error and its context."""
    if kind == "unexpected_keyword_argument":
        return f"unknown key '{key}'{did_you_mean(key, keys(for_sweep=True))}"
    text = f"{key}={value if str(value).isprintable() else ascii(value)}"[:_LONGEST]
    if kind == "value_error":
        return f"{text}{limits['error']}"
    if kind in _LIMITS:
        limit = next(iter(limits.values()))
        words = f"a {'whole ' * isinstance(limit, int)}number {_LIMITS[kind].format(limit)}"
    else:
        words = _TAKES.get(kind.partition("_")[0], "another kind of value")
        plain: Any = PLAIN
        for part in key.split("."):
            plain = plain.get(part) if isinstance(plain, Mapping) else plain
        words += ", or null" if plain is None else ""
    return f"{' '.join(typed.get(key, text).split())[:_LONGEST]}: it takes {words}"


def keys(for_sweep: bool) -> list[str]:
    """The names of all settings. Those that only a sweep supports, such as `grow`, are included only `for_sweep`."""
    top = [name for name in PLAIN if for_sweep or name not in SWEEPS_ALONE]
    parts = [f"{name}.{part}" for name in top for part in (PLAIN[name] if isinstance(PLAIN[name], dict) else ())]
    return [*top, HEAD_DIM, *([SCALE] if for_sweep else ()), *parts]


# The values of each axis.
AxisValues = Mapping[str, Sequence[Any]]


def check_effects(chosen: Collection[str], axes: AxisValues) -> None:
    """Raise UsageError for an explicit setting that no case would have.

    `chosen` are the axes that the user has set, `axes` the values of all axes. Defaults may be without effect, because
    the user did not choose them. A mask and a fraction of padding are checked, a cache and a launch of GPUs, and
    lengths.
    """
    _check_mask(chosen, axes)
    for axis, usual in OF_GPUS.items() if set(axes["device"]) == {"cpu"} else ():
        if axis in chosen and set(axes[axis]) != {usual}:
            raise UsageError(f"{_is_set(axis, axes)} is of GPUs: give device=cuda too, or leave it out")
    text = _is_set("lengths", axes)
    if set(axes["lengths"]) != {EQUAL} and set(axes["batch_size"]) == {1}:
        raise UsageError(f"{text}: a batch of one sequence has one length: give batch_size=8 too, or leave lengths out")
    if EQUAL not in axes["lengths"] and "padding_fraction" in chosen and any(axes["padding_fraction"]):
        fraction = _is_set("padding_fraction", axes)
        raise UsageError(f"{fraction} is of equal lengths: {text} sets the padding; leave one of them out")


def _check_mask(chosen: Collection[str], axes: AxisValues) -> None:
    if "padding" in axes["mask"]:
        return
    # Without a mask there is no padding, and the key of the case records that.
    if "padding_fraction" in chosen and any(axes["padding_fraction"]):
        text = _is_set("padding_fraction", axes)
        raise UsageError(f"{text} says how much of a padded batch is padding: give mask=padding too, or leave it out")
    if "mask" in chosen and set(axes["mode"]) == {"decode"}:
        seen = {"none" if source else "causal" for source in axes["kv_len"]}
        if not seen.intersection(axes["mask"]):
            why = "comes after all others" if "causal" in seen else "sees all of a source"
            instead = " or ".join(f"mask={mask}" for mask in sorted(seen))
            text = _is_set("mask", axes)
            raise UsageError(f"{text}: with mode=decode a token {why}: give {instead}, or leave mask out")


def _is_set(axis: str, axes: AxisValues) -> str:
    return f"{axis}={','.join(map(str, axes[axis]))}"
