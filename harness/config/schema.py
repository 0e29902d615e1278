"""The schema of a sweep's configuration: as Hydra composes it, and as the code uses it once checked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from harness.case import SETTINGS


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
    real_share: Any = MISSING
    source_len: Any = MISSING
    together: Any = None
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


@dataclass(frozen=True)
class SweepConfig:
    """A checked configuration.

    `together` holds points along some axes, each with a value for every one of these axes. The points are combined
    with all other axes. In `axes` their values occur too, but not which values belong together. A published setting
    and its published results are in `paper`, which is empty without one.

    `memory_limit` is in bytes; None means most of the memory that is free at the start. A trial that compiles, and is
    not timed, may take `compile_timeout_s` seconds. Sizes along the axis `grow` are doubled until a layer fails.
    A continued sweep re-runs the cases whose status is in `retry`. Without `wait`, the command submits the shards and
    ends.
    """

    axes: dict[str, tuple[Any, ...]]
    together: tuple[dict[str, Any], ...]
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
