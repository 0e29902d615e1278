"""What all plots share: the theme, titles, legends, axes with round ticks, and files as PNG and SVG."""

import textwrap
import warnings
from collections.abc import Iterable
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from harness import formatting

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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.round_text(formatting.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())


def axis_of_bytes(axes: Axes) -> None:
    """Make the y axis logarithmic, in bytes, with ticks at powers of four."""
    axes.set_yscale("log", base=4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.round_text(formatting.size(value))))
    axes.yaxis.set_minor_locator(NullLocator())


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure to `path` as PNG and as SVG, and return both paths. Raises OSError if it cannot be written.

    The SVG's text stays text: small, searchable, and in the reader's own fonts.
    """
    # Appended, not replaced: a name may contain a dot of its own, as that of a share does.
    png, svg = (path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg"))
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none"}):
        # A letter that no font has is drawn as a box. The plot shows it, so a warning for each is unnecessary.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure.savefig(png, dpi=130)
        figure.set_layout_engine("none")  # laid out once for both: the layout is half of the drawing
        figure.savefig(svg)
    return [png, svg]
