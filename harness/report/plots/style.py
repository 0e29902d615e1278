"""What all plots share: the theme, titles, legends, axes with round ticks, and files as PNG and SVG."""

import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.formatting import shortened
from harness.report.figure_panels import looks_of

GUIDE = "0.45"
_THEME = {
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


@contextmanager
def canvas(width: float, height: float, title: str, style: str = "whitegrid") -> Iterator[Figure]:
    """A figure of a size in inches, with a title wrapped to its width. Draw inside the `with`, which sets the theme."""
    with sns.axes_style(style, rc=_THEME), sns.plotting_context(rc=_THEME):
        figure = Figure(figsize=(width, height), layout="constrained")
        room = max(20, int((width - 0.3) / _TITLE_SIGN))
        figure.suptitle("\n".join(part for line in title.split("\n") for part in textwrap.wrap(line, room)))
        yield figure


# Inches: height of one entry of a legend, width of one column.
_ENTRY, _COLUMN = 0.215, 2.2


def legend_columns(entries: int, height: float) -> tuple[int, float]:
    """The columns that `entries` of a legend need beside axes `height` inches high, and their width in inches."""
    columns = -(-entries // max(1, int((height - 0.5) / _ENTRY)))
    return columns, columns * _COLUMN


def layer_handles(impls: Iterable[str], **line: Any) -> list[Line2D]:
    """The entries of a legend for some layers."""
    return [
        Line2D([], [], color=look.colour, ls=(0, look.dash), marker=look.marker, ms=6, label=shortened(impl), **line)
        for impl, look in looks_of(impls).items()
    ]


def log_axis(axes: Axes, which: str, axis: dict[str, Any]) -> None:
    """Make the axis `which`, `x` or `y`, logarithmic, with a range and ticks as `figure_panels` makes them."""
    ticks, texts = zip(*axis["ticks"], strict=True)
    # In this order: a new scale would replace the ticks.
    looks = {"scale": "log", "lim": axis["range"], "ticks": ticks, "ticklabels": texts}
    axes.set(**{f"{which}{name}": value for name, value in looks.items()})
    getattr(axes, f"set_{which}ticks")([], minor=True)


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
