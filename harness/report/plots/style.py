"""What all plots share: the theme, titles, legends, axes with round ticks, and files as PNG and SVG."""

import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from harness.formatting import shortened
from harness.report.figure_panels import Curve, looks_of

GUIDE = "0.45"
_THEME = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "figure.titlesize": 12.5,
    "grid.color": "0.88",
    "svg.fonttype": "none",  # text stays text: small files, and searchable
}

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
    with sns.axes_style(style, rc=_THEME), sns.plotting_context(rc=_THEME):
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


BARS = "bars: 95 % confidence intervals"


def bars_caption(curves: Iterable[Curve], axis: Mapping[str, Any]) -> str:
    """What to say about the error bars of some curves; empty if there are none."""
    ends = [end for curve in curves for end in zip(curve.lo, curve.hi, strict=True)]
    drawn = [within(lo, hi, axis["range"]) is not None for lo, hi in ends if lo is not None and hi is not None]
    return f"{BARS}{'' if all(drawn) else ' (not where wider than the axis)'}" if any(drawn) else ""


def within(lo: float, hi: float, limits: Sequence[float]) -> tuple[float, float] | None:
    """The part of an interval that a bar shows; None if it is outside, or if both ends are beyond the axis."""
    bottom, top = limits
    if hi <= bottom or lo >= top or (lo <= bottom and hi >= top):
        return None
    return max(lo, bottom), min(hi, top)


def error_bars(axes: Axes, curve: Curve, colour: str) -> None:
    """Draw the interval of each point of a curve as a bar, cut at the limits of the axes."""
    for n, lo, hi in zip(curve.n, curve.lo, curve.hi, strict=True):
        if lo is not None and hi is not None and (ends := within(lo, hi, axes.get_ylim())):
            axes.vlines(n, *ends, color=colour, lw=1.1, alpha=0.75, zorder=2.5)


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
