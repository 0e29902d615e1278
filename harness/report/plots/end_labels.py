"""Names at the ends of curves, in a column beside the axes, each as near to its curve as the others allow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from harness.report.names import short

# Height of a name, in inches.
LINE = 0.155
_POINTS = 8
_INK = 0.72
# Where a line to a name ends and where the name begins, as shares of the axes' width from the left.
_TO, _AT = 1.03, 1.04


@dataclass(frozen=True)
class End:
    """The last point of a curve, its name and its colour."""

    name: str
    n: float
    cost: float
    colour: str


def label_ends(axes: Axes, ends: Sequence[End], high: float) -> None:
    """Write the names beside axes with final limits and a logarithmic y axis, `high` inches high."""
    bottom, top = axes.get_ylim()
    ordered = sorted(ends, key=lambda end: end.cost)
    wanted = [math.log(end.cost / bottom) / math.log(top / bottom) for end in ordered]
    for end, height in zip(ordered, spread(wanted, LINE / high), strict=True):
        axes.annotate(
            *("", (end.n, end.cost)),
            xytext=(_TO, height),
            textcoords="axes fraction",
            arrowprops={"arrowstyle": "-", "color": end.colour, "lw": 0.7, "alpha": 0.6, "shrinkA": 0, "shrinkB": 2},
            annotation_clip=False,
        )
        axes.text(
            _AT,
            height,
            short(end.name),
            transform=axes.transAxes,
            fontsize=_POINTS,
            va="center",
            color=_dark(end.colour),
        )


def _dark(colour: str) -> tuple[float, ...]:
    """The colour darkened for text: a yellow line is visible on white, but yellow words are not readable."""
    return tuple(_INK * part for part in to_rgb(colour))


def spread(wanted: Sequence[float], apart: float) -> list[float]:
    """Return ascending heights at least `apart` from each other, nearest to the ascending `wanted` by least squares.

    They are within 0 and 1 if there is room.
    """
    # After subtracting i · apart from each, heights must only not descend: neighbours that do are pooled to their mean.
    pools: list[tuple[float, int]] = []
    for i, height in enumerate(wanted):
        mean, number = height - i * apart, 1
        while pools and pools[-1][0] > mean:
            before, several = pools.pop()
            mean, number = (before * several + mean * number) / (several + number), several + number
        pools.append((mean, number))
    top = 1 - (len(wanted) - 1) * apart
    free = [max(min(mean, top), 0.0) for mean, number in pools for _ in range(number)]
    return [height + i * apart for i, height in enumerate(free)]
