"""The results of a run as series: the cost of one layer in one setting over n, d, h and b."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from harness.results.table import CaseResult

if TYPE_CHECKING:
    pass


# METRICS get a law in `laws.csv`. COUNTS are exact, and their terms are those expected of a layer's time.
METRICS = ("time", "memory", "flops", "depth")
COUNTS = ("flops", "depth", "ops", "traffic")
_COLUMNS = {"memory": "peak_bytes", "flops": "flops", "depth": "depth", "ops": "ops", "traffic": "min_bytes"}


@dataclass(frozen=True)
class Setting:
    """What all points of a series have in common besides the layer."""

    mode: str
    dtype: str
    device: str
    mask: str
    threads: int
    allocator: str
    padding_fraction: float = 0.0
    kv_len: int = 0


@dataclass(frozen=True)
class Point:
    """A cost at a size with its 95 % interval. For an exact cost, `value`, `lo` and `hi` are equal.

    A single trial gives no interval: `lo` is then 0 and `hi` infinite.
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
        """The size as (n, d, h, b)."""
        return self.n, self.d, self.h, self.b


@dataclass(frozen=True)
class Series:
    """One metric of one layer in one setting, by size: seconds, bytes, FLOPs or operations."""

    impl: str
    setting: Setting
    metric: str
    points: tuple[Point, ...]


_SETTING = tuple(field.name for field in fields(Setting))


def setting_of(line: CaseResult) -> Setting:
    """Return the setting of a line."""
    return Setting(**{name: getattr(line, name) for name in _SETTING})


def series_groups(lines: Iterable[CaseResult]) -> dict[tuple[str, Setting], list[CaseResult]]:
    """Group the lines by layer and setting, in the order of the lines."""
    found: dict[tuple[str, Setting], list[CaseResult]] = {}
    for line in lines:
        found.setdefault((line.impl, setting_of(line)), []).append(line)
    return found


def series_of(lines: Iterable[CaseResult], metric: str) -> Series | None:
    """Return the series of one metric from lines of the same layer and setting; None if no line has the metric.

    Memory is unknown at every size if the layer allocates outside torch at one size. At smaller sizes the part outside
    torch may be too small to be noticed.
    """
    held = list(lines)
    if metric == "memory" and any(line.allocates_outside_torch for line in held):
        return None
    points = sorted((p for line in held if (p := point_of(line, metric)) is not None), key=lambda p: p.size)
    return Series(held[0].impl, setting_of(held[0]), metric, tuple(points)) if points else None


def point_of(line: CaseResult, metric: str) -> Point | None:
    """Return the line's cost in one metric; None if it was not measured."""
    size = (line.seq_len, line.d_model, line.num_heads, line.batch_size)
    if metric != "time":
        value = getattr(line, _COLUMNS[metric])
        return Point(*size, value, value, value) if value is not None else None
    if line.time_s is None:
        return None
    if line.time_lo_s is None or line.time_hi_s is None:
        return Point(*size, line.time_s, 0.0, math.inf)
    return Point(*size, line.time_s, line.time_lo_s, line.time_hi_s)
