"""The results of a run as series of costs: one metric of a layer in one setting, over n, d, h, b and its own axes."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from harness.core.model import own_axes
from harness.core.model.polynomial import AXES, OwnSize, Size
from harness.core.model.sweep_axes import MAPPED_FROM_BYTES, Setting
from harness.core.results.columns import CaseResult
from harness.core.stats.interval import low_quantile

from .laws import Costs, Sizes, relative_errors_of, shrunken_errors
from .page_faults import PageFaults, page_faults

# The median probe time of a case on a quiet machine varies by about 3 %. The log of a larger ratio is a slowdown.
PROBE_NOISE = 0.05
# Sizes this factor apart count as a factor of two apart: 513 and 1025, for example.
_APART = 1.9
# The columns of metrics with another name. The time has an interval too.
_COLUMNS = {"time": "time_s", "memory": "peak_bytes", "traffic": "min_bytes"}


def sizes_by_letter(size: Size) -> dict[str, float]:
    """The values of a size by letter."""
    return {**dict(zip(AXES, size[:4], strict=True)), **dict(size[4])}


@dataclass(frozen=True)
class Point:
    """A cost at a size with its 95 % interval. For an exact cost, `value`, `lo` and `hi` are equal.

    A single trial gives no interval: `lo` is then 0 and `hi` infinite. The standard error `unlike` comes on top where
    the machine was slower than at another size (`unlikeness`).
    """

    n: int
    d: int
    h: int
    b: int
    value: float
    lo: float
    hi: float
    own: OwnSize = ()
    unlike: float = 0.0

    @property
    def size(self) -> Size:
        """The size as (n, d, h, b, own)."""
        return self.n, self.d, self.h, self.b, self.own


@dataclass(frozen=True)
class Series:
    """One metric of one layer in one setting, by size: seconds, bytes, FLOPs or operations.

    The cost of the page faults of times is in `faults`, None if it is not known. The layer's own axes have the `names`,
    by letter, and so has the length m of a source. FLOPs are `declared` if the layer claims each of them.
    """

    impl: str
    setting: Setting
    metric: str
    points: tuple[Point, ...]
    faults: PageFaults | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    declared: bool = False

    @property
    def shown_setting(self) -> Setting:
        """The setting, with the length of the source if all points have the same."""
        lengths = {dict(point.own).get("m", 0) for point in self.points}
        return self.setting._replace(kv_len=lengths.pop()) if len(lengths) == 1 else self.setting

    @property
    def costs(self) -> Costs:
        """The costs of the points. Only times have errors: other costs are exact."""
        values, lo, hi, unlike = np.array(
            [(point.value, point.lo, point.hi, point.unlike) for point in self.points], float
        ).T
        errors = None
        if self.metric == "time":
            errors = np.minimum(np.hypot(shrunken_errors(relative_errors_of(lo, hi)), unlike), 1.0)
        return Costs(Sizes.of(point.size for point in self.points), values, errors, self.faults)

    @property
    def largest(self) -> Point:
        """The point with the largest n. Ties go to the larger width, then heads, then batch size."""
        return max(self.points, key=lambda point: point.size)


def series_groups(lines: Iterable[CaseResult]) -> dict[tuple[str, Setting], list[CaseResult]]:
    """Group the lines by layer and the setting of their series, in the order of the lines."""
    found: dict[tuple[str, Setting], list[CaseResult]] = {}
    for line in lines:
        found.setdefault((line.impl, line.law_setting), []).append(line)
    return found


def series_along(lines: Iterable[CaseResult], axis: str) -> list[dict[int, CaseResult]]:
    """The lines by their size along an axis, in ascending order, for each combination of the other sizes."""
    groups: dict[tuple[Any, ...], dict[int, CaseResult]] = {}
    for line in lines:
        sizes: dict[str, Any] = sizes_by_letter(line.size)
        if size := sizes.pop(axis, 0):
            groups.setdefault(tuple(sizes.values()), {})[size] = line
    return [dict(sorted(found.items())) for found in groups.values()]


def sizes_factor_two_apart(sizes: Iterable[int], apart: float = _APART) -> list[int]:
    """Return the largest size, the largest of about half of it or less, and so on, in ascending order.

    Between closer sizes, growth cannot be distinguished from rounding up to whole blocks.
    """
    found: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not found or apart * size <= found[-1]:
            found.append(size)
    return found[::-1]


def exponent_at_end(costs: Mapping[int, int]) -> float:
    """The scaling exponent up to the largest size, from the largest of at most half of it, or else the smallest."""
    small, large = [min(costs), *sizes_factor_two_apart(costs)][-2:]
    return math.log(max(costs[large], 1) / max(costs[small], 1)) / math.log(large / small)


def series_of(lines: Sequence[CaseResult], metric: str) -> Series | None:
    """Return the series of one metric from lines of the same layer and setting; None if no line has the metric.

    Memory is unknown at every size if the layer allocates outside torch at one size. At smaller sizes the part outside
    torch may be too small to be noticed.
    """
    if metric == "memory" and any(line.allocates_outside_torch for line in lines):
        return None
    quietest = min(lines, key=lambda line: line.probe_s or math.inf)
    known = ((point_of(line, metric), unlikeness(line, quietest)) for line in lines)
    points = sorted((replace(p, unlike=unlike) for p, unlike in known if p is not None), key=lambda p: p.size)
    faults = page_faults_of(lines) if metric == "time" else None
    names = own_axes.names_of_letters(line.own_axes for line in lines)
    first = lines[0]
    if first.kv_len:
        names["m"] = "kv_len"
    declared = metric == "flops" and all(line.flops in (None, line.flops_claimed) for line in lines)
    return Series(first.impl, first.law_setting, metric, tuple(points), faults, names, declared) if points else None


def unlikeness(line: CaseResult, other: CaseResult) -> float:
    """The standard error that unlike conditions add to the log of a ratio of times.

    It is infinite if a host timed one of them alone, and 0 if the conditions are alike or unknown. A time is a low
    quantile, and so that of the fastest host.
    """
    if line.host and other.host and line.host != other.host:
        return math.inf
    same_probe = (line.device, line.threads, line.env) == (other.device, other.threads, other.env)
    if not (same_probe and line.probe_s and other.probe_s):
        return 0.0
    slower = abs(math.log(line.probe_s / other.probe_s))
    return slower if slower > PROBE_NOISE else 0.0


def point_of(line: CaseResult, metric: str) -> Point | None:
    """Return the line's cost in one metric; None if it was not measured."""
    n, d, h, b, own = line.size
    lo = hi = value = getattr(line, _COLUMNS.get(metric, metric))
    if metric == "time":
        has_ends = line.time_lo_s is not None and line.time_hi_s is not None
        lo, hi = (line.time_lo_s, line.time_hi_s) if has_ends else (0.0, math.inf)
    return Point(n, d, h, b, value, lo, hi, own) if value is not None else None


def page_faults_of(lines: Sequence[CaseResult]) -> PageFaults | None:
    """Return what a layer pays for page faults; None if its lines do not tell.

    The price of a page fault is the low quantile over the cases, as the time of a case is one over its trials.
    """
    known = [line for line in lines if line.block_sizes and line.page_fault_s]  # a disturbance may make it 0
    if not known:
        return None
    prices = np.sort([line.page_fault_s or 0.0 for line in known])
    return page_faults(
        Sizes.of(line.size for line in known),
        [dict(json.loads(line.block_sizes or "[]")) for line in known],
        [line.mapped_bytes or 0 for line in known],
        (float(low_quantile(prices)), float(prices.std() / prices.mean()) / math.sqrt(len(prices))),
        MAPPED_FROM_BYTES[lines[0].allocator],
    )
