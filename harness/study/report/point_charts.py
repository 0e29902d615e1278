"""The two charts with a point for each case: its speed under the roofline, and its error against its time.

The second has the Pareto front at the largest n. It joins the layers of which no other one is both faster and more
accurate.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter

from harness.core.layers.layer_lookup import ITSELF, is_foreign
from harness.core.model import formatting
from harness.core.results.columns import CaseResult
from harness.study.laws.roofline import Roof, RoofPoint

from .chart import Chart, Curve, Guide, Point, too_wide, value_axis
from .document import grouped
from .figure_panels import TIME, Panel

# An error of 0 has no place on a logarithmic axis: it is drawn at this share of the least other one.
_BELOW_LEAST = 0.3
# An error so large, of so many times the plain layer's, may be of wrong values: rounding takes up to 3.3 times.
_LARGE_ERROR, _LARGE_IN_HALF, _MUCH_LESS_EXACT = 1e-5, 1e-3, 8.0


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
    return is_foreign(line.impl) and (line.accuracy_by or "").endswith(ITSELF)


def is_inexact(line: CaseResult) -> bool:
    """Whether the errors are large, and may be more than rounding: far above the plain layer's in the same dtype."""
    error = max(line.output_error or 0.0, line.gradient_error or 0.0)
    large = _LARGE_IN_HALF if "float16" in line.dtype else _LARGE_ERROR
    return not line.allowed_error and error > large and (line.error_ratio or 0.0) > _MUCH_LESS_EXACT


def accuracy_chart(panel: Panel) -> Chart | None:
    """The error of each case against its time, and the front as a guide; None if fewer than two layers have both.

    The front joins the layers at `n`, the largest n at which two layers have both. Suspect times are left out.
    """
    drawn = [line for line in panel.lines if line.time_s and not line.suspect and error_of(line) is not None]
    sizes = Counter(line.seq_len for line in drawn)
    largest = max((n for n, layers in sizes.items() if layers > 1), default=None)
    if largest is None:
        return None
    least = min(filter(None, map(error_of, drawn)), default=1e-16)
    curves = curves_of((line.impl, _accuracy_point(line, _BELOW_LEAST * least)) for line in drawn)
    points = [point for curve in curves for point in curve.points]
    x = TIME.axis([point.x for point in points], TIME.label)
    y = value_axis([point.y for point in points], "{:.0e}".format, "error (RMS, relative to float64)", room=2.0)
    front = pareto_front(point.place for point in points if point.n == largest)
    return Chart(x, y, curves, [_staircase(front, y.range[1])], n=largest)


def _accuracy_point(line: CaseResult, no_error: float) -> Point:
    """`n = 2048: 36.8 ms, error 2.4e-07 of the RMS, 0.83 of the plain layer's (64 rows, AttentionReference)`."""
    time_s, error = line.time_s or 0.0, error_of(line) or 0.0
    ratio = "" if line.error_ratio is None else f", {formatting.three(line.error_ratio)} times the plain layer's"
    measured = f"n = {line.seq_len}: {formatting.seconds(time_s)}, error {error:.1e} of the RMS"
    text = f"{measured}{ratio} ({line.accuracy_by})"
    return Point(time_s, error or no_error, hollow=too_wide(line.time_lo_s, line.time_hi_s), text=text, n=line.seq_len)


def pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points `(time, error)` of which no other is at most as large in both, by time."""
    front: list[tuple[float, float]] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


def _staircase(front: Sequence[tuple[float, float]], highest: float) -> Guide:
    """The border of what is reached: down from the `highest` error at each point, then right to the next point."""
    x, y = list[float](), list[float]()
    for time_s, error in front:
        x += [time_s, time_s]
        y += [y[-1] if y else highest, error]
    return Guide(x, y)


def curves_of(points: Iterable[tuple[str, Point]]) -> list[Curve]:
    """A curve for each layer of the points, each with its layer, in ascending n."""
    by_layer = grouped(points, itemgetter(0))
    return [Curve(impl, sorted(map(itemgetter(1), alike), key=attrgetter("n"))) for impl, alike in by_layer.items()]


def roofline_chart(roof: Roof | None, points: Sequence[RoofPoint]) -> Chart | None:
    """The FLOP/s of each case against its FLOPs a byte, and the roof as a guide; None if nothing can be drawn.

    The band above the roof is what noise may add to it.
    """
    if roof is None or not points:
        return None
    peak = roof.peak_flops_per_s
    noise = roof.noise if math.isfinite(roof.noise) else 1.0  # not measured: a band without height
    ridge = peak / roof.bandwidth_bytes_per_s
    intensities = [ridge, *(point.flops_per_byte for point in points)]
    lowest = min(intensities) / 1.5
    x = value_axis([lowest, max(intensities)], formatting.three, "arithmetic intensity (FLOP/byte)")
    y = value_axis([*(point.flops_per_s for point in points), noise * peak], formatting.flops_rate, "FLOP/s")
    corners = [x.range[0], ridge, x.range[1]]
    limits = [roof.at(corner) for corner in corners]
    memory = f"{roof.bandwidth_bytes_per_s / 1e9:.3g} GB/s memory bandwidth"
    texts = memory, f"{formatting.flops_rate(peak)} peak"
    guide = Guide(corners, limits, [noise * limit for limit in limits], texts)
    return Chart(x, y, curves_of((point.line.impl, _roofline_point(point)) for point in points), [guide])


def _roofline_point(point: RoofPoint) -> Point:
    """`n = 512: 94.2 GFLOP/s at 44.1 FLOPs a byte, 46 % of what compute allows there (41 % to 50 %)`.

    An end of the interval is None where it is open, as after a single trial.
    """
    lo = point.flops_per_s_lo or None
    hi = point.flops_per_s_hi if point.flops_per_s_hi < math.inf else None
    bounded = point.share_lo > 0 and point.share_hi < math.inf
    between = f" ({formatting.share(point.share_lo)} to {formatting.share(point.share_hi)})" if bounded else ""
    speed = f"{formatting.flops_rate(point.flops_per_s)} at {formatting.three(point.flops_per_byte)} FLOPs a byte"
    text = f"{speed}, {formatting.share(point.share)} of what {point.bound} allows there{between}"
    n = point.line.seq_len
    return Point(point.flops_per_byte, point.flops_per_s, lo, hi, too_wide(lo, hi), f"n = {n}: {text}", n)
