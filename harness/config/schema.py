"""The shape of a sweep's configuration: as Hydra composes it, and as the code uses it once checked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from harness.case import SETTINGS


@dataclass
class Precision:
    """How well to measure a case, and for how long at most. Times are in seconds.

    Once a case's interval is within ± `target` of its time, looked at from `min_rounds` trials on, half as many trials
    again confirm it, and it stops (with `min_rounds` = `max_rounds` nobody looks, and nothing needs confirming); at the
    latest it stops after `max_rounds` trials or `case_s` in its trials. One trial samples for `trial_s`
    and is a time-out after `timeout_s`. Cases that saw the machine disturbed in all their rounds are measured
    again in quiet moments, for which the sweep waits `patience_s` in all.
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
    """Where trials run: on this machine (`cluster` is `here`), or in shards, each a job of Slurm's or a process.

    Cases that differ along one of the axes `apart` are not compared with each other, and may be in different shards.
    `time` is in minutes. A shard of which nothing is heard for `silence_s` seconds is taken for dead, one that has not
    begun after `queue_s` is not waited for, and what is left of either is given to another job, for `attempts` in all.
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
    """`conf/sweep.yaml`: the axes (a value or a list each), and the settings of the whole sweep."""

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
    """A checked configuration. `memory_limit` is in bytes, None for most of what is free at the start.

    `together` are points along some axes, each with a value for every one of them, to be combined with all other axes:
    `axes` has their values too, but not which go together. `paper` is a published setting and what was published of
    it, empty for none. A trial that compiles, and is not timed, may take `compile_timeout_s` seconds. Along the axis
    `grow`, sizes are doubled until a layer gives out. `retry` are the statuses of cases that a sweep which goes on
    opens again. Without `wait`, shards are submitted and left to themselves.
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
