"""`laws.csv`: how time and memory grow with n, for each impl at each width and number of heads."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from harness.scaling.slope import Point, fitted_slope, slope_between
from harness.summary import Line

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("time", "memory")


@dataclass(frozen=True)
class Law:
    """The slope of one metric against n: over all sizes, between the two smallest, between the two largest."""

    impl: str
    d_model: int
    num_heads: int
    batch_size: int
    mode: str
    dtype: str
    device: str
    threads: int
    allocator: str
    metric: str
    points: int
    seq_len_min: int
    seq_len_max: int
    slope: float
    slope_lo: float
    slope_hi: float
    slope_small_n: float
    slope_small_n_lo: float
    slope_small_n_hi: float
    slope_large_n: float
    slope_large_n_lo: float
    slope_large_n_hi: float


def fit_laws(lines: Iterable[Line]) -> list[Law]:
    """A law for every series of cases that differ in n alone and hold a number at two sizes or more."""
    series: dict[tuple, list[Line]] = {}
    for line in lines:
        group = (
            line.impl,
            line.d_model,
            line.num_heads,
            line.batch_size,
            line.mode,
            line.dtype,
            line.device,
            line.threads,
            line.allocator,
        )
        series.setdefault(group, []).append(line)
    laws = []
    for group, members in series.items():
        members.sort(key=lambda line: line.seq_len)
        for metric in METRICS:
            points = [point for line in members if (point := _point(line, metric)) is not None]
            if len(points) >= 2:
                laws.append(Law(*group, metric, *_slopes(points)))
    return laws


def _slopes(points: Sequence[Point]) -> tuple:
    whole = fitted_slope(points)
    small = slope_between(points[0], points[1])
    large = slope_between(points[-2], points[-1])
    ends = (len(points), int(points[0].size), int(points[-1].size))
    return (*ends, *(value for slope in (whole, small, large) for value in (slope.slope, slope.lo, slope.hi)))


def _point(line: Line, metric: str) -> Point | None:
    if metric == "memory":
        return _exact(line.seq_len, line.peak_bytes) if line.peak_bytes else None
    if line.time_s is None or line.time_lo_s is None:
        return None
    # One trial has no interval: nothing bounds its slope, and the table says so.
    hi = line.time_hi_s if line.time_hi_s is not None else float("inf")
    return Point(line.seq_len, line.time_s, line.time_lo_s, hi)


def _exact(size: int, value: float) -> Point:
    return Point(size, value, value, value)


def laws_table(laws: Iterable[Law]) -> "pd.DataFrame":
    """The laws as a tidy DataFrame."""
    import pandas as pd

    return pd.DataFrame([asdict(law) for law in laws], columns=[field.name for field in fields(Law)])
