"""What the plots of a cost against n share: the y axis, guide lines, names of curves, and the layers to draw."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from harness.formatting import shortened
from harness.report.facets import Panel
from harness.report.plots.style import GUIDE, MANY, axis_of_bytes, axis_of_seconds
from harness.report.text.quality import unsupported_layers
from harness.results.table import CaseResult


@dataclass(frozen=True)
class Cost:
    """The quantity on the y axis. The `value` of a line, and its interval `band`, are None if they are missing."""

    label: str
    value: Callable[[CaseResult], float | None]
    band: Callable[[CaseResult], tuple[float, float] | None]
    axis: Callable[[Axes], None]


def _interval(line: CaseResult) -> tuple[float, float] | None:
    if line.time_lo_s is None or line.time_hi_s is None:
        return None
    return line.time_lo_s, line.time_hi_s


TIME = Cost("time of one call", lambda line: line.time_s, _interval, axis_of_seconds)
MEMORY = Cost("peak memory of one call", lambda line: line.peak_bytes or None, lambda _: None, axis_of_bytes)


def known_cost(panel: Panel, impl: str, cost: Cost) -> list[tuple[int, float]]:
    """`(n, cost)` of a layer in a panel, in ascending n, for the cases that have a cost."""
    return [(line.seq_len, value) for line in panel.of(impl) if (value := cost.value(line)) is not None]


def cost_frame(axes: Axes, panels: Iterable[Panel], cost: Cost) -> None:
    """Fit the y axis to the values, not to the intervals: a very wide interval must not squeeze the values."""
    values = [value for panel in panels for line in panel.lines if (value := cost.value(line)) is not None]
    if values:
        axes.set_ylim(min(values) / 3, max(values) * 3)


def crowd_sentence(panels: Sequence[Panel], cost: Cost) -> list[Panel]:
    """The panels to draw: without layers that are always unsupported; if crowded, without any unsupported case."""
    gone = unsupported_layers(line for panel in panels for line in panel.lines)
    crowded = is_crowded(panels, cost)
    return [
        replace(
            panel,
            lines=tuple(
                line for line in panel.lines if line.impl not in gone and not (crowded and line.status == "unsupported")
            ),
        )
        for panel in panels
    ]


def is_crowded(panels: Sequence[Panel], cost: Cost) -> bool:
    """Whether there are more curves than one pair of axes has room for."""
    return len(drawn_layers(panels, cost)) > MANY


def drawn_layers(panels: Sequence[Panel], cost: Cost) -> list[str]:
    """The layers that have a curve in at least one panel."""
    return [impl for impl in impls_of(panels) if any(known_cost(panel, impl, cost) for panel in panels)]


def impls_of(panels: Sequence[Panel]) -> list[str]:
    """The layers of all panels, in order of appearance."""
    return list(dict.fromkeys(impl for panel in panels for impl in panel.impls()))


# Dashes by power. The legend names them, since a label beside a line seldom has free space.
_DASHES = {1: (0, (6, 3)), 2: (0, (1.5, 2))}


def draw_guides(axes: Axes, panel: Panel, cost: Cost) -> None:
    """Draw grey lines of slope 1 and 2 from the panel's lower left, to compare with a cost's scaling exponent.

    Only their slope has a meaning.
    """
    values = [value for line in panel.lines if (value := cost.value(line)) is not None]
    sizes = sorted({line.seq_len for line in panel.lines})
    if not values or len(sizes) < 2:
        return
    start = min(values) * 0.6
    for power, dashes in _DASHES.items():
        # A guide ends at the highest value: one that left the panel at its top would stretch the axis.
        end = min(sizes[-1], sizes[0] * (max(values) / start) ** (1 / power))
        axes.plot([sizes[0], end], [start, start * (end / sizes[0]) ** power], color=GUIDE, ls=dashes, lw=1, zorder=1)


def name_guides() -> list[Line2D]:
    """The legend's entries for the guides."""
    return [
        Line2D([], [], color=GUIDE, ls=_DASHES[power], lw=1, label=label) for power, label in ((1, "∝ n"), (2, "∝ n²"))
    ]


# Height of a name, in inches.
LINE = 0.155
_POINTS = 8
_INK = 0.72
# Where a line to a name ends and where the name begins, as shares of the axes' width from the left.
_TO, _AT = 1.03, 1.04


@dataclass(frozen=True)
class EndLabel:
    """The last point of a curve, its name and its colour."""

    name: str
    n: float
    cost: float
    colour: str


def label_ends(axes: Axes, ends: Sequence[EndLabel], high: float) -> None:
    """Write the names in a column beside the axes, each as near to the end of its curve as the others allow.

    The axes have final limits and a logarithmic y axis, and are `high` inches high.
    """
    bottom, top = axes.get_ylim()
    ordered = sorted(ends, key=lambda end: end.cost)
    wanted = [math.log(end.cost / bottom) / math.log(top / bottom) for end in ordered]
    for end, height in zip(ordered, spread_labels(wanted, LINE / high), strict=True):
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
            shortened(end.name),
            transform=axes.transAxes,
            fontsize=_POINTS,
            va="center",
            color=_dark(end.colour),
        )


def _dark(colour: str) -> tuple[float, ...]:
    """The colour darkened for text: a yellow line is visible on white, but yellow words are not readable."""
    return tuple(_INK * part for part in to_rgb(colour))


def spread_labels(wanted: Sequence[float], apart: float) -> list[float]:
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
