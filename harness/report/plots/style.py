"""What all plots share: one theme, and axes with round ticks."""

import textwrap
from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from harness.report import units

GUIDE = "0.45"
THEME = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "figure.titlesize": 13,
    "svg.fonttype": "none",  # text stays text: small files, and searchable
}

# With more layers than this a plot is crowded and shows less of each.
MANY = 10

# Average width of a character of a figure's title in inches, estimated a little high.
_TITLE_SIGN = 0.105


def title(figure: Figure, text: str) -> None:
    """Put a title over the figure, wrapped to its width."""
    room = int((figure.get_figwidth() - 0.3) / _TITLE_SIGN)
    figure.suptitle("\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, max(20, room))))


# Inches: height of one entry of a legend, width of one column.
_ENTRY, _COLUMN = 0.215, 2.2


def legend_columns(entries: int, height: float) -> int:
    """The number of columns that `entries` of a legend need beside the axes of a figure `height` inches high."""
    return -(-entries // max(1, int((height - 0.5) / _ENTRY)))


def room_for(columns: int) -> float:
    """The width of a legend with `columns` columns, in inches."""
    return columns * _COLUMN


def axis_of_sizes(axes: Axes, sizes: Iterable[int]) -> None:
    """Make the x axis logarithmic. It names measured n only: at most eight, evenly chosen, the largest included."""
    ticks = sorted(set(sizes))
    axes.set_xscale("log", base=2)
    step = -(-len(ticks) // 8)
    axes.xaxis.set_major_locator(FixedLocator(ticks[::-1][::step][::-1]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def axis_of_seconds(axes: Axes) -> None:
    """Make the y axis logarithmic, in seconds, with two ticks a decade."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.round_text(units.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())


def axis_of_bytes(axes: Axes) -> None:
    """Make the y axis logarithmic, in bytes, with ticks at powers of four."""
    axes.set_yscale("log", base=4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.round_text(units.size(value))))
    axes.yaxis.set_minor_locator(NullLocator())
