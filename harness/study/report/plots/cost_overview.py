"""The overview as a picture: time, peak memory and sequential depth side by side, with a message over each."""

import re

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.study.report.chart import Chart
from harness.study.report.overview import Crossing, Overview

from .curves import dense_places, draw_curves, shares, write_label
from .style import canvas, log_axes, wrapped

# Inches: width and height of a chart with its names, and the part of the height that the axes do not get.
_WIDE, _HIGH, _AROUND = 4.7, 4.1, 1.25
# The most characters in a line of a message.
_MESSAGE = 60
_POWER = re.compile(r"\bn\^(-?[\d.]*\d)")
# Approximate width and height of a chart, in characters of the crossing's label.
_SIGNS = (41, 19)
# Height of that label, as a share of the chart's height from below, if no curve runs there.
_LABEL_AT = 0.25


def cost_overview(overview: Overview) -> Figure:
    """Draw the charts of an overview in one row."""
    with canvas(_WIDE * len(overview.charts), _HIGH, overview.title, overview.caption, style="ticks") as figure:
        row = figure.subplots(1, len(overview.charts), squeeze=False)[0]
        messages = [wrapped(chart.message, _MESSAGE) for chart in overview.charts.values()]
        most = max(map(len, messages))
        for axes, (metric, chart), message in zip(row, overview.charts.items(), messages, strict=True):
            log_axes(axes, x=chart.x, y=chart.y)
            axes.grid(color="0.9", lw=0.8)
            axes.spines[["top", "right"]].set_visible(False)
            # Messages of fewer lines leave the first lines free, so that all charts are equally high.
            axes.set_title(chart.title, loc="left", fontweight="bold", pad=9 + 13 * most)
            says = _POWER.sub(r"$n^{\1}$", "\n".join(message).replace("$", r"\$"))
            axes.annotate(
                says,
                xy=(0, 1),
                xycoords="axes fraction",
                xytext=(0, 5 + 13 * most),
                textcoords="offset points",
                va="top",
                fontsize=9,
                color="0.35",
                parse_math=True,
            )
            draw_curves(axes, {curve.impl: curve for curve in chart.curves}, overview.looks, _HIGH - _AROUND)
            if metric == "time" and overview.crossing:
                _mark(axes, overview.crossing, chart, overview.looks[overview.crossing.impl].colour)
    return figure


def _mark(axes: Axes, crossing: Crossing, chart: Chart, colour: str) -> None:
    """Mark a crossing with a line, its interval with a shade, and write its n where the fewest curves run."""
    axes.axvspan(crossing.lo, crossing.hi, color=colour, alpha=0.13, lw=0, zorder=0.5)
    axes.axvline(crossing.n, color=colour, ls=":", lw=1.4, zorder=0.6)
    curve_places = dense_places(axes, (curve.places for curve in chart.curves))
    x = shares(axes, [(crossing.n, chart.y.range[0])])[0, 0]
    write_label(axes, crossing.label, (x, _LABEL_AT), curve_places, colour, _SIGNS)
