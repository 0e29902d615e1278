"""Compare each case with the machine's roofline: FLOP/s over FLOPs per byte (Williams, Waterman, Patterson 2009).

Two details differ from the plain roofline. The memory roof bounds only the traffic that must cross between memory and
cache. On a GPU, where calls are timed with a cold cache, this includes all weights and inputs. And a peak is the
fastest rate that calibration measured, so the machine can reach at least that. It may be faster by the noise floor, the
difference between two measurements of the same thing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from harness.core.config.machine import Machine, part
from harness.core.model.formatting import counted
from harness.core.model.sweep_axes import Setting
from harness.core.results.columns import CaseResult

# Threads of the layer work on after a call if `threads_after` is more. Idle ones sleep.
MOST_THREADS_AFTER = 0.25
THREADS_RUN_ON = "threads of the layer run on after a call has returned"
# Used if the kernel does not report the cache size: calibration's arrays are four times the assumed cache size.
_BUFFER_TO_CACHE = 4


@dataclass(frozen=True)
class Roof:
    """The FLOP/s and bytes per second that calibration measured for one dtype, device and number of threads.

    Both may be up to `noise` times as high: infinity without a noise floor. `cache_bytes` is the size of the last-level
    cache. With 0, nothing is assumed to stay in it. On a GPU, `sustained_flops_per_s` is the peak under load.
    """

    dtype: str
    device: str
    threads: int
    peak_flops_per_s: float
    bandwidth_bytes_per_s: float
    noise: float
    cache_bytes: int = 0
    sustained_flops_per_s: float | None = None

    def at(self, flops_per_byte: float) -> float:
        """Return the highest possible FLOP/s at this intensity if all bytes come from memory."""
        return min(self.peak_flops_per_s, flops_per_byte * self.bandwidth_bytes_per_s)


@dataclass(frozen=True)
class RoofPoint:
    """One case under its roof: FLOPs per byte (least traffic), and FLOP/s with the interval of its time.

    The case reaches a fraction `share` of what the roof allows. This exceeds `Roof.at` if part of the traffic stays in
    the cache. The limit is named by `bound`: `compute` or `memory`.
    """

    line: CaseResult
    setting: Setting
    flops_per_byte: float
    flops_per_s: float
    flops_per_s_lo: float
    flops_per_s_hi: float
    share: float
    share_lo: float
    share_hi: float
    bound: str


def roofs(machine: Machine) -> list[Roof]:
    """Return a roof for each dtype whose peak was calibrated, from a run's machine.json; none without calibration."""
    made = part(machine, "calibration")
    moved = part(made, "bandwidth")
    bandwidth = moved.get("bandwidth_bytes_per_s")
    if not bandwidth:
        return []
    floor, sustained = made.get("noise_floor"), made.get("sustained_flops_per_s") or {}
    noise = inf if floor is None else 1 + floor
    cache = moved.get("cache_bytes") or (moved.get("buffer_bytes") or 0) // _BUFFER_TO_CACHE
    return [
        Roof(
            dtype,
            made.get("device") or "",
            made.get("threads") or 0,
            peak,
            bandwidth,
            noise,
            cache,
            sustained.get(dtype),
        )
        for dtype, peak in part(made, "peak_flops_per_s").items()
    ]


def why_no_roof(machine: Machine, lacking: str = "No roofline") -> str:
    """Return what is lacking and how to get a roofline, for a run without one; empty if the run has a roofline."""
    if roofs(machine):
        return ""
    # On a machine that was never calibrated, the note would only repeat this message.
    note = machine.get("calibration_note") or ""
    why = f" ({note})" if note and not note.startswith("there is none") else ""
    return f"{lacking}: this run has no calibration{why}. `python -m harness calibrate` gives later sweeps one."


def roof_points(lines: Iterable[CaseResult], known: Sequence[Roof]) -> list[RoofPoint]:
    """Return a point for every timed case with known FLOPs and traffic and a matching roof.

    A roof matches by dtype, device and number of threads. Threads are ignored on a GPU, because they do not affect its
    peak.
    """
    found = []
    for line in lines:
        roof = roof_of(line, known)
        if roof is None or not (line.time_s and line.flops and line.min_bytes):
            continue
        least_s, bound = _least_s(line, roof)
        allowed, reached = line.flops / least_s, line.flops / line.time_s
        lo = line.flops / line.time_hi_s if line.time_hi_s else 0.0
        hi = line.flops / line.time_lo_s if line.time_lo_s else inf
        shares = reached / allowed, lo / (allowed * roof.noise), hi / allowed
        per_byte = line.flops / line.min_bytes
        found.append(RoofPoint(line, Setting.of(line), per_byte, reached, lo, hi, *shares, bound))
    return found


def roof_of(line: CaseResult, known: Sequence[Roof]) -> Roof | None:
    """Return the roof that matches the line, or None."""
    return next((roof for roof in known if _kind(roof) == _kind(line)), None)


def with_possible_times(lines: Iterable[CaseResult], known: Sequence[Roof]) -> list[CaseResult]:
    """Raise the lower end of each time to the shortest time that the calibrated peak and bandwidth allow.

    A line without a matching roof stays as it is, and so does one whose time is above the roof: it contradicts the
    calibration.
    """
    possible = []
    for line in lines:
        roof = roof_of(line, known)
        if roof and line.time_s and line.time_lo_s is not None:
            least_s = _least_s(line, roof)[0] / roof.noise
            if line.time_lo_s < least_s < line.time_s:
                line = replace(line, time_lo_s=least_s)
        possible.append(line)
    return possible


# The layer has threads of its own if `cpu_over_wall` is more times its number of threads.
_MOST_CPUS_PER_THREAD = 1.1
_TOO_FAST = {
    "compute": "it takes less time than its FLOPs at the measured peak",
    "memory": "it takes less time than its least traffic at the measured bandwidth",
}


# An interval that spans more than this factor says that its value cannot be compared with others.
WIDEST = 10.0
TOO_WIDE = f"the 95 % interval of a time spans a factor of over {WIDEST:.0f} in most cases: measure again"


def interval_widths(lines: Iterable[CaseResult]) -> list[float]:
    """The ratios of the ends of the times' intervals, in ascending order."""
    return sorted(line.time_hi_s / line.time_lo_s for line in lines if line.time_hi_s and line.time_lo_s)


def are_too_wide(lines: Sequence[CaseResult]) -> bool:
    """Whether most times have an interval that is too wide. Of a time without one, nothing is known."""
    timed = [line for line in lines if line.time_s is not None]
    wide = [width for width in interval_widths(timed) if width > WIDEST]
    return 2 * len(wide) > len(timed)


def with_suspects(lines: Sequence[CaseResult], known: Sequence[Roof]) -> list[CaseResult]:
    """The lines, with the reason in `suspect` where the time cannot be right.

    It is surely above its roof, or threads of the layer work beside those of the case or after a call has returned.
    If the intervals of most times of the run are too wide, no time can be compared.
    """
    why = TOO_WIDE if are_too_wide(lines) else None
    return [replace(line, suspect=_why_suspect(line, known) or (why if line.time_s else None)) for line in lines]


def _why_suspect(line: CaseResult, known: Sequence[Roof]) -> str | None:
    roof = roof_of(line, known)
    if roof is not None and line.time_s and line.time_hi_s:
        least_s, bound = _least_s(line, roof)
        if line.time_hi_s * roof.noise < least_s:
            return _TOO_FAST[bound]
    if (line.threads_after or 0.0) > MOST_THREADS_AFTER:
        return THREADS_RUN_ON
    if line.device == "cpu" and (line.cpu_over_wall or 0.0) > _MOST_CPUS_PER_THREAD * line.threads:
        return "it uses more CPUs than its number of threads"
    return line.suspect  # a table tells what was found on the machine that measured it


def _least_s(line: CaseResult, roof: Roof) -> tuple[float, str]:
    """Return the shortest time at the calibrated rates, and what bounds it: `memory` or `compute`.

    Unknown FLOPs count as none, and so does unknown traffic.
    """
    by_memory = _crossing_bytes(line, roof.cache_bytes) / roof.bandwidth_bytes_per_s
    by_compute = (line.flops or 0) / roof.peak_flops_per_s
    return (by_memory, "memory") if by_memory > by_compute else (by_compute, "compute")


def _crossing_bytes(line: CaseResult, cache_bytes: int) -> float:
    """Return how much of the least traffic must cross between memory and a cache of this size.

    Without FLOPs, a call may return views or read a few rows of its inputs. Then only the memory that it allocates
    counts, which it surely writes.
    """
    least = line.min_bytes or 0
    if line.flops == 0:
        return max(0, min(least, line.peak_bytes or 0) - cache_bytes)
    is_cold = line.device != "cpu" and line.cache != "hot"
    return least * (share_when_cold if is_cold else share_at_ridge)(line, cache_bytes)


def _kind(of: CaseResult | Roof) -> tuple[str, str, int]:
    return of.dtype, of.device, of.threads if of.device == "cpu" else 0


def _given_bytes(line: CaseResult) -> int:
    """Return the bytes of weights and inputs that a call needs: a mixture of experts leaves most of them untouched."""
    given = (line.weights_bytes or 0) + (line.inputs_bytes or 0)
    return given if line.read_bytes is None else min(given, line.read_bytes)


def share_at_ridge(line: CaseResult, cache_bytes: int) -> float:
    """Return the share of the least traffic that must cross between memory and a last-level cache of this size, C.

    W bytes are needed: a call's intermediates, and what it reads of weights and inputs. If all of them fit into the
    cache, the previous call left them there. The share is then 0, and only arithmetic bounds the call. Otherwise, a
    cache that keeps what it will need again saves the share C/W, and 1 − C/W must cross. The memory roof is then
    1/(1 − C/W) times as high.

    The share is 1 if the needed bytes are unknown.
    """
    needed = _given_bytes(line) + (line.peak_bytes or 0)
    return max(0.0, 1 - cache_bytes / needed) if needed else 1.0


def share_when_cold(line: CaseResult, cache_bytes: int) -> float:
    """Return the share of the least traffic that must cross to and from memory if the call finds the cache cold.

    A call on a GPU is timed so. All that existed before it (weights, inputs, masks, caches and states) crosses whole.
    Of the rest, a cache of C bytes may spare the share C/P, where P is the peak that the call allocates.

    The share is 1 if these sizes are unknown.
    """
    if line.weights_bytes is None or line.inputs_bytes is None or not line.min_bytes:
        return 1.0
    given = min(_given_bytes(line), line.min_bytes)
    spared = min(1.0, cache_bytes / line.peak_bytes) if line.peak_bytes else 0.0
    return (given + (1 - spared) * (line.min_bytes - given)) / line.min_bytes


def points_above_roof(points: Iterable[RoofPoint]) -> list[str]:
    """Return a message for each layer and bound with cases surely above their roof, which is impossible."""
    above: dict[tuple[str, str], list[RoofPoint]] = {}
    for point in points:
        if point.share_lo > 1:
            above.setdefault((point.line.impl, point.bound), []).append(point)
    return [_reason(max(points, key=lambda point: point.share_lo), len(points) - 1) for points in above.values()]


def _reason(point: RoofPoint, others: int) -> str:
    line = point.line
    which = f"{line.impl} n={line.seq_len} d={line.d_model} h={line.num_heads}"
    more = f" and {counted(others, 'more case')}" if others else ""
    why = {
        "compute": "the peak of matrix products was measured too low, or the work is counted too high",
        "memory": "the bandwidth was measured too low, or more of its traffic stays in the cache than is reckoned with",
    }[point.bound]
    return (
        f"above the roof: {which}{more} reaches {100 * point.share:.0f} % of what "
        f"{point.bound} allows, {100 * point.share_lo:.0f} % at least: {why}. Calibrate on a quiet machine."
    )
