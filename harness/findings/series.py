"""A run's lines as series: what one impl costs, in one setting, over n, d, h and b."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from harness.summary import Line

# What a law is told of; and what a layer's time is made of, counted exactly.
METRICS = ("time", "memory", "flops", "depth")
COUNTS = ("flops", "depth", "ops", "traffic")
_COLUMNS = {"memory": "peak_bytes", "flops": "flops", "depth": "depth", "ops": "ops", "traffic": "min_bytes"}


@dataclass(frozen=True)
class Setting:
    """What is the same for all points of a series beside the impl."""

    mode: str
    dtype: str
    device: str
    mask: str
    threads: int
    allocator: str
    real_share: float = 1.0
    source_len: int = 0


@dataclass(frozen=True)
class Point:
    """A cost at a size, with the interval it is known in; of an exact cost all three are one.

    One trial has no interval: `hi` is then infinite and `lo` 0.
    """

    n: int
    d: int
    h: int
    b: int
    value: float
    lo: float
    hi: float

    @property
    def size(self) -> tuple[float, float, float, float]:
        """(n, d, h, b)."""
        return self.n, self.d, self.h, self.b


@dataclass(frozen=True)
class Series:
    """One metric of one impl in one setting: seconds, bytes, FLOPs or operations, by size."""

    impl: str
    setting: Setting
    metric: str
    points: tuple[Point, ...]


_SETTING = tuple(field.name for field in fields(Setting))


def setting_of(line: Line) -> Setting:
    """The setting that a line was measured in."""
    return Setting(**{name: getattr(line, name) for name in _SETTING})


def groups(lines: Iterable[Line]) -> dict[tuple[str, Setting], list[Line]]:
    """The lines by impl and setting, in the order of the lines."""
    found: dict[tuple[str, Setting], list[Line]] = {}
    for line in lines:
        found.setdefault((line.impl, setting_of(line)), []).append(line)
    return found


def series_of(lines: Iterable[Line], metric: str) -> Series | None:
    """One metric of lines of the same impl and setting; None where none of them holds it.

    Memory is unknown at every size if the layer allocates outside torch at one: at smaller sizes the part outside torch
    may be too small to be noticed.
    """
    held = list(lines)
    if metric == "memory" and any(line.allocates_outside_torch for line in held):
        return None
    points = sorted((p for line in held if (p := point_of(line, metric)) is not None), key=lambda p: p.size)
    return Series(held[0].impl, setting_of(held[0]), metric, tuple(points)) if points else None


def point_of(line: Line, metric: str) -> Point | None:
    """The line's cost in one metric; None where it was not measured."""
    size = (line.seq_len, line.d_model, line.num_heads, line.batch_size)
    if metric != "time":
        value = getattr(line, _COLUMNS[metric])
        return Point(*size, value, value, value) if value is not None else None
    if line.time_s is None:
        return None
    if line.time_lo_s is None or line.time_hi_s is None:
        return Point(*size, line.time_s, 0.0, math.inf)
    return Point(*size, line.time_s, line.time_lo_s, line.time_hi_s)
