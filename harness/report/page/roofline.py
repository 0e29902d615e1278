"""Cases under the roof of their machine, in the form that a chart needs."""

import math
from collections.abc import Sequence
from typing import Any

from harness.findings.roofline import Roof, RoofPoint
from harness.report import units
from harness.report.page import frames
from harness.report.panels import Panel


def roofline(panel: Panel, roof: Roof | None, points: Sequence[RoofPoint]) -> dict[str, Any] | None:
    """`{"x", "y", "roof", "curves": [{impl, n, x, y, lo, hi, text}]}`; None if nothing can be drawn.

    `x` and `y` are axes, of FLOPs a byte and of FLOP/s. The entry `roof` holds the roof's corners (`x`, `y`), their
    interval (`lo`, `hi`) and two labels (`compute`, `memory`).
    """
    if roof is None or not points:
        return None
    reach = [point.flops_per_byte for point in points]
    ridge = roof.peak_flops_per_s / roof.bandwidth_bytes_per_s
    x = frames.ratios([min(*reach, ridge) / 1.5, max(*reach, ridge)], units.three)
    lo, hi = x["range"]
    corners = [lo, ridge, hi]
    rates = [point.flops_per_s for point in points]
    y = frames.ratios([*rates, roof.peak_hi], units.flops_rate)
    return {
        "x": x,
        "y": y,
        "roof": {
            "x": corners,
            "y": [roof.at(at) for at in corners],
            "lo": [min(roof.peak_lo, at * roof.bandwidth_lo) for at in corners],
            "hi": [min(roof.peak_hi, at * roof.bandwidth_hi) for at in corners],
            "compute": f"peak {units.flops_rate(roof.peak_flops_per_s)}",
            "memory": f"memory {roof.bandwidth_bytes_per_s / 1e9:.3g} GB/s",
        },
        "curves": [_curve(impl, points) for impl in panel.impls() if any(p.line.impl == impl for p in points)],
    }


def _curve(impl: str, points: Sequence[RoofPoint]) -> dict[str, Any]:
    own = sorted((point for point in points if point.line.impl == impl), key=lambda point: point.line.seq_len)
    return {
        "impl": impl,
        "n": [point.line.seq_len for point in own],
        "x": [point.flops_per_byte for point in own],
        "y": [point.flops_per_s for point in own],
        "lo": [_bounded(point.flops_per_s_lo) for point in own],
        "hi": [_bounded(point.flops_per_s_hi) for point in own],
        "text": [text(point) for point in own],
    }


def _bounded(end: float) -> float | None:
    """An end of an interval; None if it is open, as after a single trial."""
    return end if 0 < end < math.inf else None


def text(point: RoofPoint) -> str:
    """`n = 512: 94.2 GFLOP/s at 44.1 FLOPs a byte, 46 % of what compute allows there (41 % to 50 %)`."""
    return (
        f"n = {point.line.seq_len}: {units.flops_rate(point.flops_per_s)} at {units.three(point.flops_per_byte)} FLOPs "
        f"a byte, {units.share(point.share)} of what {point.bound} allows there{_between(point)}"
    )


def _between(point: RoofPoint) -> str:
    if point.share_lo <= 0 or point.share_hi == math.inf:
        return ""
    return f" ({units.share(point.share_lo)} to {units.share(point.share_hi)})"
