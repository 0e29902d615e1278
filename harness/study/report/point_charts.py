"""The two charts with a point for each case: its speed under the roofline, and its error against its time.

The second has the Pareto front at the largest n. It joins the layers of which no other one is both faster and more
accurate.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter

from harness.core.layers.layer_lookup import ITSELF, is_foreign
from harness.core.model import formatting
from harness.core.results.columns import CaseResult
from harness.study.laws.roofline import Roof, RoofPoint

from .document import grouped
from .figure_panels import TIME, Chart, Panel, value_axis

# An error of 0 has no place on a logarithmic axis: it is drawn at this share of the least other one.
_BELOW_LEAST = 0.3
# An error so large, of so many times the plain layer's, may be of wrong values: rounding takes up to 3.3 times.
_LARGE_ERROR, _MUCH_LESS_EXACT = 1e-3, 8.0


def error_of(line: CaseResult) -> float | None:
    """The error that the picture shows: of the gradients, if the case has a backward pass, and of the output if not."""
    return line.output_error if line.gradient_error is None else max(line.gradient_error, line.output_error or 0.0)


def approximations(lines: Iterable[CaseResult]) -> list[str]:
    """A sentence on each layer with an `allowed_error`: how far it is off from its reference, at most.

    Nobody judges the gradients of an approximation, so the sentence has them too.
    """
    text = []
    approximate = [line for line in lines if line.allowed_error]
    for impl, alike in sorted(grouped(approximate, lambda line: line.impl).items()):
        output = max(line.output_error or 0.0 for line in alike)
        gradients = max(line.gradient_error or 0.0 for line in alike)
        of_gradients = f", and its gradients by {formatting.share(gradients)}" if gradients else ""
        text.append(f"approximate: {impl}: it is off from its reference by {formatting.share(output)}{of_gradients}.")
    return text


def is_by_itself(line: CaseResult) -> bool:
    """Whether a user's layer has no reference. The project's own tests compare each layer of the registry with one."""
    return is_foreign(line.impl) and bool(line.accuracy_by and line.accuracy_by.endswith(ITSELF))


def is_inexact(line: CaseResult) -> bool:
    """Whether the errors are large, and may be more than rounding: far above the plain layer's in the same dtype."""
    error = max(line.output_error or 0.0, line.gradient_error or 0.0)
    return not line.allowed_error and error > _LARGE_ERROR and (line.error_ratio or 0.0) > _MUCH_LESS_EXACT


def accuracy_chart(panel: Panel) -> Chart | None:
    """`{"x", "y", "n", "curves": [{impl, n, x, y, lo, hi, text}], "front": {"x", "y"}}`; None if fewer than two layers.

    A curve has the time of each case as `x`, with its interval, and the error as `y`. The front is a staircase of the
    layers at `n`, the largest n at which two layers have both. Suspect times are left out.
    """
    drawn = [line for line in panel.lines if line.time_s and not line.suspect and error_of(line) is not None]
    sizes = Counter(line.seq_len for line in drawn)
    largest = max((n for n, layers in sizes.items() if layers > 1), default=None)
    if largest is None:
        return None
    least = min(filter(None, map(error_of, drawn)), default=1e-16)
    points: list[Chart] = [
        {
            "impl": line.impl,
            "n": line.seq_len,
            "x": line.time_s,
            "y": error_of(line) or _BELOW_LEAST * least,
            "lo": line.time_lo_s,
            "hi": line.time_hi_s,
            "text": _text(line),
        }
        for line in drawn
    ]
    x = TIME.axis([point["x"] for point in points])
    y = value_axis([point["y"] for point in points], "{:.0e}".format, room=2.0)
    front = pareto_front((point["x"], point["y"]) for point in points if point["n"] == largest)
    return {"x": x, "y": y, "n": largest, "curves": _curves(points), "front": _staircase(front, y["range"][1])}


def pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points `(time, error)` of which no other is at most as large in both, by time."""
    front: list[tuple[float, float]] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


def _staircase(front: Sequence[tuple[float, float]], highest: float) -> dict[str, list[float]]:
    """The border of what is reached: down from the `highest` error at each point, then right to the next point."""
    x: list[float] = []
    y: list[float] = []
    for time_s, error in front:
        x += [time_s, time_s]
        y += [y[-1] if y else highest, error]
    return {"x": x, "y": y}


def _curves(points: Iterable[Chart]) -> list[Chart]:
    """The points of each layer in ascending n, as a list for each of their names beside `impl`."""
    curves = []
    for impl, alike in grouped(points, itemgetter("impl")).items():
        ordered = sorted(alike, key=itemgetter("n"))
        lists = {name: list(map(itemgetter(name), ordered)) for name in ordered[0]}
        curves.append({**lists, "impl": impl})
    return curves


def _text(line: CaseResult) -> str:
    """`n = 2048: 36.8 ms, error 2.4e-07 of the RMS, 0.83 of the plain layer's (64 rows, AttentionReference)`."""
    ratio = "" if line.error_ratio is None else f", {formatting.three(line.error_ratio)} times the plain layer's"
    time = formatting.seconds(line.time_s or 0.0)
    return f"n = {line.seq_len}: {time}, error {error_of(line) or 0.0:.1e} of the RMS{ratio} ({line.accuracy_by})"


def roofline_chart(roof: Roof | None, points: Sequence[RoofPoint]) -> Chart | None:
    """The result of `roofline_frame` with `"curves": [{impl, n, x, y, lo, hi, text}]`; None if nothing can be drawn.

    `lo` and `hi` are None where the interval is open, as after a single trial.
    """
    if roof is None or not points:
        return None
    shown = (
        {
            "impl": point.line.impl,
            "n": point.line.seq_len,
            "x": point.flops_per_byte,
            "y": point.flops_per_s,
            "lo": point.flops_per_s_lo if point.flops_per_s_lo > 0 else None,
            "hi": point.flops_per_s_hi if point.flops_per_s_hi < math.inf else None,
            "text": _roofline_text(point),
        }
        for point in points
    )
    return {**roofline_frame(roof, points), "curves": _curves(shown)}


def roofline_frame(roof: Roof, points: Sequence[RoofPoint]) -> Chart:
    """`{"x", "y", "roof"}` for the points under a roof: the axes of FLOPs a byte and of FLOP/s, and the roof.

    The roof has its corners (`x`, `y`), their interval (`lo`, `hi`), and two labels (`compute`, `memory`).
    """
    peak = roof.peak_flops_per_s
    noise = roof.noise if math.isfinite(roof.noise) else 1.0  # not measured: an interval without width
    ridge = peak / roof.bandwidth_bytes_per_s
    reach = [ridge, *(point.flops_per_byte for point in points)]
    x = value_axis([min(reach) / 1.5, max(reach)], formatting.three)
    corners = [x["range"][0], ridge, x["range"][1]]
    limits = [roof.at(corner) for corner in corners]
    return {
        "x": x,
        "y": value_axis([*(point.flops_per_s for point in points), noise * peak], formatting.flops_rate),
        "roof": {
            "x": corners,
            "y": limits,
            "lo": limits,
            "hi": [noise * limit for limit in limits],
            "compute": f"{formatting.flops_rate(peak)} peak",
            "memory": f"{roof.bandwidth_bytes_per_s / 1e9:.3g} GB/s memory bandwidth",
        },
    }


def _roofline_text(point: RoofPoint) -> str:
    """`n = 512: 94.2 GFLOP/s at 44.1 FLOPs a byte, 46 % of what compute allows there (41 % to 50 %)`."""
    bounded = point.share_lo > 0 and point.share_hi < math.inf
    between = f" ({formatting.share(point.share_lo)} to {formatting.share(point.share_hi)})" if bounded else ""
    speed = f"{formatting.flops_rate(point.flops_per_s)} at {formatting.three(point.flops_per_byte)} FLOPs a byte"
    share = f"{formatting.share(point.share)} of what {point.bound} allows there{between}"
    return f"n = {point.line.seq_len}: {speed}, {share}"
