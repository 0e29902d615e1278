"""The roofline: FLOP/s against FLOPs a byte, with every case of a setting under its machine's limits.

Williams, Waterman, Patterson 2009, figure 1.
"""

import math
from collections.abc import Sequence

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness import formatting
from harness.analysis.roofline import Roof, RoofPoint
from harness.formatting import shortened
from harness.report.facets import SETTING_AXES, PanelSetting, looks_of, roof_of_facet
from harness.report.plots.style import GUIDE, THEME, legend_columns, room_for, title

# Height of the figure, in inches.
_HEIGHT = 5.2


def roofline(setting: PanelSetting, roofs: Sequence[Roof], points: Sequence[RoofPoint]) -> Figure | None:
    """Draw the figure for one setting; None if the setting has no roof or no points under it."""
    roof = roof_of_facet(roofs, setting)
    own = [p for p in points if tuple(getattr(p.line, axis) for axis in SETTING_AXES) == setting.values]
    if roof is None or not own:
        return None
    with sns.axes_style("whitegrid", rc=THEME), sns.plotting_context(rc=THEME):
        handles = _legend(own)
        beside = legend_columns(len(handles), _HEIGHT)
        figure = Figure(figsize=(6.4 + room_for(beside), _HEIGHT), layout="constrained")
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        _roof(axes, roof, own)
        _points(axes, own)
        _ticks(axes)
        axes.set(xlabel="FLOPs a byte, with the least traffic", ylabel="FLOP/s")
        title(figure, f"Roofline: {setting.title}")
        figure.legend(
            *zip(*handles, strict=True),
            loc="outside right center",
            frameon=False,
            ncols=beside,
            borderaxespad=1.0,
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0.9)},
        )
    return figure


def _roof(axes: Axes, roof: Roof, points: Sequence[RoofPoint]) -> None:
    ridge = roof.peak_flops_per_s / roof.bandwidth_bytes_per_s
    reach = [ridge, *(point.flops_per_byte for point in points)]
    ends = [min(reach) / 2, ridge, max(reach) * 2]
    lo = [min(roof.peak_lo, at * roof.bandwidth_lo) for at in ends]
    hi = [min(roof.peak_hi, at * roof.bandwidth_hi) for at in ends]
    axes.fill_between(ends, lo, hi, color=GUIDE, alpha=0.2, lw=0)
    axes.plot(ends, [roof.at(at) for at in ends], color=GUIDE, lw=2)
    axes.set_xlim(ends[0], ends[-1])
    axes.set_ylim(min(point.flops_per_s for point in points) / 2, roof.peak_hi * 1.8)
    peak = f"peak {formatting.flops_rate(roof.peak_flops_per_s)}"
    axes.annotate(
        peak, (ends[-1], roof.peak_hi), xytext=(-4, 3), textcoords="offset points", ha="right", va="bottom", fontsize=9
    )
    memory = f"memory {roof.bandwidth_bytes_per_s / 1e9:.3g} GB/s"
    corner = (ends[0], roof.peak_hi)
    axes.annotate(memory, corner, xytext=(6, 3), textcoords="offset points", ha="left", va="bottom", fontsize=9)


def _points(axes: Axes, points: Sequence[RoofPoint]) -> None:
    """Draw one line for each layer, width and number of heads, in ascending n; the markers grow with n."""
    style = looks_of({point.line.impl for point in points})
    sizes = sorted({point.line.seq_len for point in points})
    groups: dict[tuple[str, int, int], list[RoofPoint]] = {}
    for point in points:
        groups.setdefault((point.line.impl, point.line.d_model, point.line.num_heads), []).append(point)
    for (impl, _, _), members in groups.items():
        members.sort(key=lambda point: point.line.seq_len)
        colour, marker, dash = style[impl]
        x, y = [p.flops_per_byte for p in members], [p.flops_per_s for p in members]
        axes.plot(x, y, color=colour, ls=(0, dash), lw=0.8, alpha=0.5)
        area = [18 + 50 * _grown(p.line.seq_len, sizes) for p in members]
        axes.scatter(x, y, s=area, color=colour, marker=marker, alpha=0.85, lw=0, zorder=3)
        known = [p for p in members if p.flops_per_s_lo > 0 and p.flops_per_s_hi < math.inf]
        axes.vlines(
            [p.flops_per_byte for p in known],
            [p.flops_per_s_lo for p in known],
            [p.flops_per_s_hi for p in known],
            color=colour,
            alpha=0.35,
            lw=1.2,
        )


def _grown(n: int, sizes: Sequence[int]) -> float:
    """The size of n on a logarithmic scale: 0 at the smallest n, 1 at the largest."""
    return math.log(n / sizes[0]) / math.log(sizes[-1] / sizes[0]) if sizes[-1] > sizes[0] else 0.5


def _ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.round_text(formatting.flops_rate(value))))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def _legend(points: Sequence[RoofPoint]) -> list[tuple[Line2D | tuple[Line2D, ...], str]]:
    """(handle, text) for each entry of the legend."""
    impls = {point.line.impl for point in points}
    handles: list[tuple[Line2D | tuple[Line2D, ...], str]] = [
        (Line2D([], [], color=colour, ls=(0, dash), marker=marker, ms=6, lw=0.8), shortened(impl))
        for impl, (colour, marker, dash) in looks_of(impls).items()
        if impl in impls
    ]
    growing = tuple(Line2D([], [], color="0.4", marker="o", ms=size, ls="") for size in (3, 5, 7))
    return [*handles, (growing, "small n to large n")]
