"""What all plots share: the theme, titles, legends, axes with round ticks, and files as PNG and SVG."""

import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.markers import CARETDOWN, CARETLEFT, CARETRIGHT, CARETUP, MarkerStyle

from harness.study.report.chart import Axis, Point

GUIDE = "0.45"
_THEME = {"font.size": 10, "axes.titlesize": 11, "axes.labelsize": 11, "figure.titlesize": 12.5, "grid.color": "0.88"}
# Inches: average width of a character of the title and of the caption, estimated a little high; heights of their lines;
# and the margins.
_TITLE_SIGN, _CAPTION_SIGN = 0.105, 0.075
_TITLE_LINE, _CAPTION_LINE = 0.235, 0.175
_LEFT, _TOP = 0.1, 0.09


@contextmanager
def canvas(width: float, height: float, title: str, caption: str = "", style: str = "whitegrid") -> Iterator[Figure]:
    """A figure of a size in inches. Draw inside the `with`, which sets the theme.

    The title says what to see. The caption below it, in small print, says of what setting. Both are wrapped to the
    width, and their height comes on top of `height`.
    """
    with sns.axes_style(style, rc=_THEME), sns.plotting_context(rc=_THEME), rc_context({"text.parse_math": False}):
        titles, captions = _wrapped(title, width, _TITLE_SIGN), _wrapped(caption, width, _CAPTION_SIGN)
        above = len(titles) * _TITLE_LINE + len(captions) * _CAPTION_LINE + 2 * _TOP
        below_texts = ConstrainedLayoutEngine(rect=(0.0, 0.0, 1.0, height / (height + above)))
        figure = Figure(figsize=(width, height + above), layout=below_texts)
        place: dict[str, Any] = {"x": _LEFT / width, "ha": "left", "va": "top"}
        top = 1 - _TOP / (height + above)
        figure.suptitle("\n".join(titles), y=top, fontweight="bold", **place).set_in_layout(False)
        if captions:
            below = top - len(titles) * _TITLE_LINE / (height + above)
            text = figure.text(y=below, s="\n".join(captions), fontsize=9, color="0.4", **place)
            text.set_in_layout(False)
        yield figure


def _wrapped(text: str, width: float, sign: float) -> list[str]:
    """The lines of a text, wrapped to a width in inches."""
    return wrapped(text, max(20, int((width - 2 * _LEFT) / sign)))


def wrapped(text: str, room: int) -> list[str]:
    """The lines of a text, of at most `room` characters. A quantity and its number stay on one line."""
    whole = re.sub(r" (=|–|±|≤) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", text)
    lines = [part for line in whole.split("\n") for part in textwrap.wrap(line, room)]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


# Matplotlib's arrow heads for the lower and the upper end of a bar along an axis, with the tip at the end.
_HEADS = {"x": (CARETLEFT, CARETRIGHT), "y": (CARETDOWN, CARETUP)}


def error_bars(axes: Axes, points: Iterable[Point], colour: str, along: str = "y", **line: Any) -> None:
    """Draw the interval of each point along the axis `along`, `x` or `y`, as a bar, if both ends are known.

    Along `x`, the places of the points are along `y`. The axes have final limits and cut the bars. An arrow head shows
    where a bar goes on beyond the axes.
    """
    limits = getattr(axes, f"get_{along}lim")()
    draw = axes.vlines if along == "y" else axes.hlines
    for point in points:
        place, lo, hi = point.x, point.lo, point.hi
        if lo is None or hi is None:
            continue
        draw(place, *np.clip([lo, hi], *limits), **{"color": colour, "lw": 1.1, "alpha": 0.75, "zorder": 2.5, **line})
        for limit, head, goes_on in zip(limits, _HEADS[along], (lo < limits[0], hi > limits[1]), strict=True):
            if goes_on:
                x, y = (place, limit) if along == "y" else (limit, place)
                axes.scatter([x], [y], marker=MarkerStyle(head), s=40, lw=0, color=colour, zorder=2.6, clip_on=False)


def log_axes(axes: Axes, **by_letter: Axis) -> None:
    """Make the axes `x` and `y`, or one of them, logarithmic, with the range, the ticks and the title of each."""
    for letter, axis in by_letter.items():
        ticks, texts = zip(*axis.ticks, strict=True)
        # In this order: a new scale would replace the ticks.
        looks = {"scale": "log", "lim": axis.range, "ticks": ticks, "ticklabels": texts, "label": axis.title}
        axes.set(**{f"{letter}{name}": value for name, value in looks.items()})
    axes.minorticks_off()


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure to `path` as PNG and as SVG, and return both paths. Raises OSError if it cannot be written.

    The SVG's text stays text: small, searchable, and in the reader's own fonts. A link at one of the paths is replaced.
    """
    # Appended, not replaced: a name may contain a dot of its own, as that of a share does.
    png, svg = (path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg"))
    for link in filter(Path.is_symlink, (png, svg)):
        link.unlink()
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none"}):
        # A letter that no font has is drawn as a box. The plot shows it, so a warning for each is unnecessary.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure.savefig(png, dpi=130)
        figure.set_layout_engine("none")  # laid out once for both: the layout is half of the drawing
        figure.savefig(svg)
    return [png, svg]
