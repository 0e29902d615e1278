"""Names at the ends of curves: in a column beside the axes, each as near to its curve as the others let it be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from harness.report.names import short

# Inches that a name takes, in height.
LINE = 0.155
_POINTS = 8
_INK = 0.72
# Shares of the axes' width, from their left: where a line to a name ends, and where the name begins.
_TO, _AT = 1.03, 1.04


@dataclass(frozen=True)
class End:
    """The last point of a curve, its name and its colour."""

    name: str
    n: float
    cost: float
    colour: str


def label_ends(axes: Axes, ends: Sequence[End], high: float) -> None:
    """Write the names beside axes whose limits are final, logarithmic, and `high` inches high."""
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
    """The colour as text has it: a yellow line can be seen on white, yellow words cannot be read."""
    return tuple(_INK * part for part in to_rgb(colour))


def spread(wanted: Sequence[float], apart: float) -> list[float]:
    """Heights in ascending order, `apart` from each other at least, and by least squares as near as can be to those
    that are wanted, which ascend too; within 0 and 1 as far as there is room.
    """
    # With i · apart taken away from each, they must only not descend: neighbours that do are pooled to their mean.
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
