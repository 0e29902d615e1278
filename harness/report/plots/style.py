"""What all pictures share: one theme, and axes with round ticks."""

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

# With more impls than this a picture is crowded: what is drawn of each gives way.
MANY = 10

# Inches that a character of a figure's title takes on average, a little more than less.
_TITLE_SIGN = 0.105


def title(figure: Figure, text: str) -> None:
    """Put a title over the figure, on as many lines as its width asks for."""
    room = int((figure.get_figwidth() - 0.3) / _TITLE_SIGN)
    figure.suptitle("\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, max(20, room))))


# Inches that one entry of a legend takes, and a column of them.
_ENTRY, _COLUMN = 0.215, 2.2


def legend_columns(entries: int, height: float) -> int:
    """In how many columns so many entries stand beside axes of a figure of that height, in inches."""
    return -(-entries // max(1, int((height - 0.5) / _ENTRY)))


def room_for(columns: int) -> float:
    """Inches of width that a legend of so many columns takes."""
    return columns * _COLUMN


def axis_of_sizes(axes: Axes, sizes: Iterable[int]) -> None:
    """A logarithmic x axis that names the measured n and no others; every second one where they crowd."""
    ticks = sorted(set(sizes))
    axes.set_xscale("log", base=2)
    step = -(-len(ticks) // 8)
    axes.xaxis.set_major_locator(FixedLocator(ticks[::-1][::step][::-1]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def axis_of_seconds(axes: Axes) -> None:
    """A logarithmic y axis in seconds, with two ticks a decade."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.round_text(units.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())


def axis_of_bytes(axes: Axes) -> None:
    """A logarithmic y axis in bytes, ticks at powers of four."""
    axes.set_yscale("log", base=4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.round_text(units.size(value))))
    axes.yaxis.set_minor_locator(NullLocator())
