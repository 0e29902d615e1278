"""Each case against what the machine can do: FLOP/s over FLOPs a byte (Williams, Waterman, Patterson 2009).

Two things are not as in the plain picture, and are so for a reason.

The memory's roof bounds only what must cross between memory and cache. A call whose weights, inputs and intermediates
all fit into the last cache finds them there from the call before, and is held against the arithmetic alone; of a call
that needs more, W bytes where the cache has C, a cache that keeps what it will need again spares the share C/W, and the
rest must cross: its roof is that of memory, 1/(1 − C/W) times as high.

A peak is the fastest that calibration saw, so the machine can do at least that; it can do more by as much as two
measurements of one thing differ there, the noise floor.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from harness.findings.series import Setting, setting_of
from harness.summary import Line

# Where the kernel does not tell the size of the cache: calibration's arrays are four times what it took it for.
_BUFFER_TO_CACHE = 4


@dataclass(frozen=True)
class Roof:
    """What calibration measured for one dtype, device and number of threads: FLOP/s and bytes a second.

    `cache_bytes` is the last cache's size; 0 takes nothing to be held there.
    """

    dtype: str
    device: str
    threads: int
    peak_flops_per_s: float
    peak_lo: float
    peak_hi: float
    bandwidth_bytes_per_s: float
    bandwidth_lo: float
    bandwidth_hi: float
    cache_bytes: int = 0

    def at(self, flops_per_byte: float) -> float:
        """The most FLOP/s that can be had at this intensity, all bytes from memory."""
        return min(self.peak_flops_per_s, flops_per_byte * self.bandwidth_bytes_per_s)


@dataclass(frozen=True)
class RoofPoint:
    """One case under its roof: FLOPs a byte (least traffic), FLOP/s with the interval of its time.

    `share` is its part of what the roof allows there; `bound` says what of: `compute` or `memory`. `roof_flops_per_s`
    is what it allows, which is more than `Roof.at` where a part of the traffic stays in the cache.
    """

    line: Line
    setting: Setting
    flops_per_byte: float
    flops_per_s: float
    flops_per_s_lo: float
    flops_per_s_hi: float
    share: float
    share_lo: float
    share_hi: float
    bound: str
    roof_flops_per_s: float = 0.0


def roofs(machine: Mapping[str, Any]) -> list[Roof]:
    """One for each dtype that the calibration in a run's machine.json has a peak of; none without a calibration."""
    made = machine.get("calibration")
    bandwidth = made and made["bandwidth"].get("bandwidth_bytes_per_s")
    if not made or not bandwidth:
        return []
    noise = 1 + made["noise_floor"]
    cache = made["bandwidth"].get("cache_bytes") or made["bandwidth"].get("buffer_bytes", 0) // _BUFFER_TO_CACHE
    return [
        Roof(
            *(dtype, made["device"], made["threads"]),
            *(peak, peak, peak * noise),
            *(bandwidth, bandwidth, bandwidth * noise),
            cache,
        )
        for dtype, peak in made["peak_flops_per_s"].items()
    ]


def why_no_roof(machine: Mapping[str, Any]) -> str:
    """One sentence on how to get a roofline, for a run without; empty where there is one."""
    if roofs(machine):
        return ""
    # The note of a run on a machine that never was calibrated says no more than this sentence.
    note = machine.get("calibration_note") or ""
    why = f" ({note})" if note and not note.startswith("there is none") else ""
    return f"No roofline: this run has no calibration{why}. `python -m harness calibrate` gives later sweeps one."


def roof_points(lines: Iterable[Line], known: Sequence[Roof]) -> list[RoofPoint]:
    """Every timed case whose work and traffic are known, and that a roof is of: same dtype, device and threads.

    A GPU's peak does not depend on how many threads feed it.
    """
    by_kind = {_kind(roof): roof for roof in known}
    found = []
    for line in lines:
        roof = by_kind.get(_kind(line))
        if roof is not None and line.time_s and line.flops and line.min_bytes:
            found.append(_point(line, roof, line.flops, line.flops / line.min_bytes, line.time_s))
    return found


def _kind(of: Line | Roof) -> tuple[str, str, int]:
    return of.dtype, of.device, of.threads if of.device == "cpu" else 0


def _point(line: Line, roof: Roof, flops: int, flops_per_byte: float, time_s: float) -> RoofPoint:
    crossing = crossing_share(line, roof.cache_bytes)
    memory = flops_per_byte / crossing if crossing else inf
    allowed, most, least = (
        min(peak, memory * bandwidth)
        for peak, bandwidth in (
            (roof.peak_flops_per_s, roof.bandwidth_bytes_per_s),
            (roof.peak_hi, roof.bandwidth_hi),
            (roof.peak_lo, roof.bandwidth_lo),
        )
    )
    reached = flops / time_s
    lo = flops / line.time_hi_s if line.time_hi_s else 0.0
    hi = flops / line.time_lo_s if line.time_lo_s else inf
    return RoofPoint(
        line,
        setting_of(line),
        flops_per_byte,
        *(reached, lo, hi),
        *(reached / allowed, lo / most, hi / least),
        "memory" if memory * roof.bandwidth_bytes_per_s < roof.peak_flops_per_s else "compute",
        allowed,
    )


def crossing_share(line: Line, cache_bytes: int) -> float:
    """What part of its least traffic must cross between memory and a cache of that size: 1 − C/W, or none."""
    needed = sum(size or 0 for size in (line.weights_bytes, line.inputs_bytes, line.peak_bytes))
    return max(0.0, 1 - cache_bytes / needed) if needed else 1.0


def above_the_roof(points: Iterable[RoofPoint]) -> list[str]:
    """A sentence for each kind of case that is surely faster than its roof allows, which no case can be."""
    above: dict[tuple[str, str], list[RoofPoint]] = {}
    for point in points:
        if point.share_lo > 1:
            above.setdefault((point.line.impl, point.bound), []).append(point)
    return [_said(max(points, key=lambda point: point.share_lo), len(points) - 1) for points in above.values()]


def _said(point: RoofPoint, others: int) -> str:
    line = point.line
    which = f"{line.impl} n={line.seq_len} d={line.d_model} h={line.num_heads}"
    why = {
        "compute": "the peak of matrix products was measured too low, or the work is counted too high",
        "memory": "the bandwidth was measured too low, or more of its traffic stays in the cache than is reckoned with",
    }[point.bound]
    return (
        f"above the roof: {which}{f' and {others} more' if others else ''} reaches {100 * point.share:.0f} % of what "
        f"{point.bound} allows, {100 * point.share_lo:.0f} % at least: {why}. Calibrate on a quiet machine."
    )
