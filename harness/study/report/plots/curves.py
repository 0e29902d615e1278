"""A cost against n, log-log, with intervals as bars, guides for n and n², and crosses for failed cases.

A figure has one pair of axes for each (d, h). If the layers are more than these have room for, each family has its own
axes. Each curve has its name at its end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from harness.core.model.formatting import shortened
from harness.study.report import figure_panels as parts
from harness.study.report.chart import Curve, FailedCase, Looks, bars_caption, size_axis
from harness.study.report.document import grouped
from harness.study.report.text.growth import depth_sentence, ratio_sentence

from .style import GUIDE, canvas, error_bars, log_axes

# The range of the y axis beyond the values, as a factor: failed cases and their labels need room.
_ROOM = 3.0
# Width and height of a pair of axes with names at the ends of curves, in inches; the least width of a plot; and the
# height of the legend.
_WIDE, _LEAST_WIDE, _HIGH, _AROUND = 5.1, 6.8, 3.4, 0.5
# The most widths, and the most numbers of heads, with a pair of axes for each family.
_MOST_SHOWN = 2
# Families with fewer curves than this share a pair of axes.
_FEW = 3
_OTHERS = "0.86"


@dataclass(frozen=True)
class Cell:
    """One pair of axes: a panel, the title, the layers in colour, and the families that the title names, if any."""

    panel: parts.Panel
    title: str
    impls: tuple[str, ...]
    families: tuple[str, ...] = ()

    def name(self, impl: str) -> str:
        """The layer's name, without the family if the title has only that one."""
        return impl.removeprefix(f"{self.families[0]}.") if len(self.families) == 1 else impl


def curves(setting: parts.PanelSetting, cost: parts.Cost, most: int | None = None) -> Figure | None:
    """Draw one setting: a pair of axes for each (d, h), or for each family if there are too many layers.

    None if the setting has no such cost. `most` is how many widths and numbers of heads are shown (None: all of them).
    With too many layers, fewer are shown in any case. Panels with equal curves share a pair of axes.
    """
    crowded = len({curve.impl for panel in setting.panels for curve in parts.cost_curves(panel, cost)}) > parts.MANY
    shown = _MOST_SHOWN if crowded else most
    if shown is not None:
        setting = parts.readable_setting(setting, shown)
    panels = supported_panels(setting.panels, crowded)
    frame = cost.axis_of(panels, room=_ROOM)
    if frame is None:
        return None
    rows = _rows_of_families(panels, cost, setting.looks) if crowded else _rows_of_widths(panels, cost)
    cells = [*chain.from_iterable(rows)]
    lines = [line for panel in panels for line in panel.lines]
    guides = _guides_of(cost)
    handles = [Line2D([], [], color=GUIDE, ls=_DASHES[n], lw=1, label=label) for n, label in guides.items()]
    if len({cell.families for cell in cells}) > 1:
        handles.append(Line2D([], [], color=_OTHERS, lw=1, label="the other layers"))
    if any(line.status != "ok" for line in lines):
        says = "failed, where it would have been"
        handles.append(Line2D([], [], color="0.2", marker="x", ms=8, mew=2, ls="", label=says))
    # Higher if the names need more.
    high = max(_HIGH, _NAME_HIGH * max(len(cell.impls) for cell in cells) + _AROUND_NAMES)
    across = max(map(len, rows))
    title = cost_title(parts.fullest_panel(panels), cost, several=len(cells) > 1 and len(panels) > 1)
    every = [curve for panel in panels for curve in parts.cost_curves(panel, cost)]
    bars = bars_caption(every, frame, drawn=not crowded)
    grey = f"grey: {' and '.join(guides.values())}, back from above the highest cost at the largest n"
    caption = "; ".join(filter(None, (setting.title, bars, grey)))
    with canvas(max(_LEAST_WIDE, _WIDE * across), high * len(rows) + _AROUND, title, caption) as figure:
        grid = figure.subplots(len(rows), across, squeeze=False, sharex=True, sharey=True)
        sizes = size_axis(line.seq_len for line in lines)
        log_axes(grid[0][0], x=sizes, y=frame)
        for axes in grid.flat:
            axes.set_axis_off()
        placed = chain.from_iterable(zip(axes_row, row, strict=False) for axes_row, row in zip(grid, rows, strict=True))
        for i, (axes, cell) in enumerate(placed):
            lowest = i + across >= len(cells)
            axes.set_axis_on()
            axes.set(title=cell.title, xlabel=sizes.title if lowest else "")
            axes.tick_params(labelbottom=lowest)
            if cell.panel.lines:
                _draw(axes, cell, cost, setting.looks, crowded, high - _AROUND_NAMES)
        figure.supylabel(cost.label)
        figure.legend(handles=handles, loc="outside lower center", frameon=False, ncols=len(handles))
    return figure


def cost_title(panel: parts.Panel, cost: parts.Cost, several: bool) -> str:
    """The title of a plot, which says how the cost grows in one of its panels, if anything is sure."""
    drawn = parts.cost_curves(panel, cost)
    says = depth_sentence(drawn, {}) if cost is parts.DEPTH else ratio_sentence(drawn, cost)
    where = f" (d = {panel.d_model}, h = {panel.num_heads})" if several else ""
    return f"{says.removesuffix('.')}{where}" if says else f"{cost.label.capitalize()} against sequence length"


def supported_panels(panels: Sequence[parts.Panel], crowded: bool) -> list[parts.Panel]:
    """The panels without layers that are always unsupported; if crowded, without any unsupported case."""
    unsupported = parts.unsupported_layers(line for panel in panels for line in panel.lines)
    hidden, supported = "unsupported" if crowded else "", []
    for panel in panels:
        shown = (line for line in panel.lines if line.impl not in unsupported and line.status != hidden)
        supported.append(replace(panel, lines=tuple(shown)))
    return supported


def _rows_of_widths(panels: Sequence[parts.Panel], cost: parts.Cost) -> list[list[Cell]]:
    """A row for each width. Panels whose curves and failed cases are equal share a cell."""
    alike = grouped(panels, lambda panel: repr((parts.cost_curves(panel, cost), parts.failed_cases(panel, cost))))
    cells = [Cell(same[0], _sizes(same, panels), tuple(same[0].impls())) for same in alike.values()]
    return [*grouped(cells, lambda cell: cell.panel.d_model).values()]


def _sizes(alike: Sequence[parts.Panel], panels: Sequence[parts.Panel]) -> str:
    """The d and h of panels that share a cell."""
    first, more = alike[0], len(alike) - 1
    if more and more + 1 == len(panels):
        return "every d and h"
    return f"d = {first.d_model}, h = {first.num_heads}" + (f", and {more} more alike" if more else "")


def _rows_of_families(panels: Sequence[parts.Panel], cost: parts.Cost, looks: Looks) -> list[list[Cell]]:
    """A row of families for each (d, h). A single (d, h) has up to two columns of families."""
    groups = family_groups(panels, cost, looks)
    rows = []
    for panel in panels:
        sizes = f", d = {panel.d_model}, h = {panel.num_heads}" if len(panels) > 1 else ""
        rows.append([Cell(panel, ", ".join(families) + sizes, impls, families) for families, impls in groups])
    return rows if len(panels) > 1 else [rows[0][i : i + 2] for i in range(0, len(groups), 2)]


_Group = tuple[tuple[str, ...], tuple[str, ...]]


def family_groups(panels: Sequence[parts.Panel], cost: parts.Cost, looks: Looks) -> list[_Group]:
    """(families, their layers that have a curve) for each pair of axes, in the order of the looks.

    Small families share axes, as far as these have room. They come last.
    """
    family = {impl: name for panel in panels for impl, name in panel.families().items()}
    with_curve = {curve.impl for panel in panels for curve in parts.cost_curves(panel, cost)}
    drawn = [impl for impl in looks if impl in with_curve]
    groups, shared = list[_Group](), list[_Group]()
    for name, impls in grouped(drawn, lambda impl: family[impl]).items():
        if len(impls) >= _FEW:
            groups.append(((name,), tuple(impls)))
        elif shared and len(shared[-1][1]) + len(impls) <= parts.MANY:
            names, before = shared[-1]
            shared[-1] = (*names, name), (*before, *impls)
        else:
            shared.append(((name,), tuple(impls)))
    return groups + shared


def _draw(axes: Axes, cell: Cell, cost: parts.Cost, style: Looks, crowded: bool, high: float) -> None:
    """Draw the curves and the failed cases of a cell on axes with final limits, `high` inches high."""
    every = parts.cost_curves(cell.panel, cost)
    for curve in every:
        if curve.impl not in cell.impls:
            axes.plot(curve.x, curve.y, color=_OTHERS, lw=0.8, zorder=1.5)
    failed = [case for case in parts.failed_cases(cell.panel, cost) if case.impl in cell.impls]
    mark_failures(axes, failed, every, style)
    coloured = {cell.name(curve.impl): curve for curve in every if curve.impl in cell.impls}
    if coloured:
        _draw_guides(axes, coloured.values(), _guides_of(cost))
        draw_curves(axes, coloured, style, high, crowded)


def draw_curves(axes: Axes, by_name: Mapping[str, Curve], style: Looks, high: float, crowded: bool = False) -> None:
    """Draw curves, all equally wide, and their intervals as bars unless the axes are crowded. Name them at their ends.

    The axes have final limits and are `high` inches high. Curves that lie on each other take turns, in dashes and in
    markers. A case whose interval is too wide is hollow.
    """
    width, size, edge = (1.3, 5.5, 0.5) if crowded else (1.8, 7, 0.75)
    for alike in coinciding(axes, by_name.values()):
        for turn, curve in enumerate(alike):
            colour, marker, dash = style[curve.impl]
            if len(alike) > 1:
                dash = (_STRIPE, _STRIPE * (len(alike) - 1))
            marked = range(turn, len(curve.points), len(alike))
            look: dict[str, Any] = {"color": colour, "marker": marker, "ms": size, "zorder": 3}
            dashes = -turn * _STRIPE, dash
            axes.plot(curve.x, curve.y, **look, ls=dashes, lw=width, mec="white", mew=edge, markevery=list(marked))
            hollow = [point.place for point in curve.points[turn :: len(alike)] if point.hollow]
            if hollow:
                axes.plot(*zip(*hollow, strict=True), **look, ls="", mfc="white", mec=colour, mew=1.3)
            if not crowded:
                error_bars(axes, curve.points, colour)
    label_ends(axes, by_name, style, high)


# Length of a dash of curves that take turns, in widths of the line.
_STRIPE = 4.0
# Curves nearer to each other than this share of the axes' height lie on each other.
_ON_EACH_OTHER = 0.008


def coinciding(axes: Axes, drawn: Iterable[Curve]) -> list[list[Curve]]:
    """Group curves that lie on each other at every n, in axes with final limits."""
    groups: list[list[Curve]] = []
    for curve in drawn:
        heights = shares(axes, curve.places)[:, 1]
        for group in groups:
            if group[0].x == curve.x:
                apart = shares(axes, group[0].places)[:, 1] - heights
                if max(abs(apart)) <= _ON_EACH_OTHER:
                    group.append(curve)
                    break
        else:
            groups.append([curve])
    return groups


# Dashes by power. The legend names them, since a label beside a line seldom has free space.
_DASHES = {1: (0, (6, 3)), 2: (0, (1.5, 2))}
# How far above the highest cost the guides end, as a factor.
_ABOVE = 1.3


def _guides_of(cost: parts.Cost) -> dict[int, str]:
    """The names of a cost's guides by power. No layer has a sequential depth that grows as n²."""
    return {1: "∝ n"} if cost is parts.DEPTH else {1: "∝ n", 2: "∝ n²"}


def _draw_guides(axes: Axes, drawn: Iterable[Curve], powers: Iterable[int]) -> None:
    """Draw grey lines as powers of n back from above the highest cost at the largest n, to compare growth with.

    Beside the highest curve: one that grows as a power of n lies on a line through its end.
    """
    last, highest = max(curve.places[-1] for curve in drawn)
    most = _ABOVE * highest
    for power in powers:
        first = max(axes.get_xlim()[0], last * (axes.get_ylim()[0] / most) ** (1 / power))
        values = [most * (first / last) ** power, most]
        axes.plot([first, last], values, color=GUIDE, ls=_DASHES[power], lw=0.9, zorder=3.5)


# Inches: height of a name at the end of a curve, and the part of the axes' height that names cannot use.
_NAME_HIGH, _AROUND_NAMES = 0.155, 0.9
_POINTS = 8
_INK = 0.72
# Where a line to a name ends and where the name begins, as shares of the axes' width from the left.
_TO, _AT = 1.03, 1.04


def label_ends(axes: Axes, by_name: Mapping[str, Curve], style: Looks, high: float) -> None:
    """Write the names of curves in a column beside the axes, each as near to its curve's end as the others allow.

    The axes have final limits and are `high` inches high.
    """
    ordered = sorted(by_name.items(), key=lambda named: named[1].y[-1])
    ends = [curve.places[-1] for _, curve in ordered]
    heights = spread_labels(shares(axes, ends)[:, 1], _NAME_HIGH / high)
    for (name, curve), end, height in zip(ordered, ends, heights, strict=True):
        colour = style[curve.impl].colour
        arrow = {"arrowstyle": "-", "color": colour, "lw": 0.7, "alpha": 0.6, "shrinkA": 0, "shrinkB": 2}
        beside = _TO, height
        axes.annotate("", end, beside, textcoords="axes fraction", arrowprops=arrow, annotation_clip=False)
        color, transform = ink(colour), axes.transAxes
        axes.text(_AT, height, shortened(name), va="center", fontsize=_POINTS, color=color, transform=transform)


def ink(colour: str) -> tuple[float, ...]:
    """A darker colour for words: a yellow line is visible on white, but yellow words are not readable."""
    return tuple(_INK * part for part in to_rgb(colour))


def spread_labels(heights: NDArray[np.float64], apart: float) -> NDArray[np.float64]:
    """Return ascending heights at least `apart` from each other, nearest to the ascending `heights` by least squares.

    They are within 0 and 1 if there is room.
    """
    # After subtracting i · apart from each, heights must only not descend.
    steps = apart * np.arange(len(heights))
    free = isotonic_regression(heights - steps).x
    return np.clip(free, 0.0, max(0.0, 1.0 - apart * (len(heights) - 1))) + steps


def shares(axes: Axes, points: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    """Places of `(n, cost)` in axes with final limits, as shares of width and height from the lower left corner."""
    return (axes.transScale + axes.transLimits).transform(points)


# Crosses nearer to each other than this share of the panel's height have one label.
_NEAR = 0.08
# Height of a cross without a cost, as a share of the panel's height from below.
_TOP = 0.94
# Approximate width and height of a panel, in characters of a label.
_SIGNS = (58, 15)


def mark_failures(axes: Axes, failed: Iterable[FailedCase], drawn: Iterable[Curve], style: Looks) -> None:
    """Draw a cross where each failed case would have been, and one label for crosses close together.

    The limits of the axes are final. Labels avoid the curves in `drawn`.
    """
    occupied = dense_places(axes, (curve.places for curve in drawn))
    low, high = axes.get_ylim()
    highest = low * (high / low) ** _TOP
    crosses = [(case, min(case.y or highest, highest)) for case in failed]
    texts_at: dict[int, set[str]] = {}
    for group in _near_crosses(axes, crosses):
        for case, y in group:
            look: dict[str, Any] = {"marker": "x", "ms": 8, "mew": 2, "ls": "", "color": style[case.impl].colour}
            axes.plot([case.x], [y], **look, zorder=4)
        n, y = group[0][0].x, group[0][1]
        text = ", ".join(dict.fromkeys(case.status for case, _ in group))
        # A label that the previous n already has is not repeated.
        before = max((size for size in texts_at if size < n), default=0)
        if text not in texts_at.get(before, ()):
            colours = {style[case.impl].colour for case, _ in group}
            colour = colours.pop() if len(colours) == 1 else "black"
            write_label(axes, text, shares(axes, [(n, y)])[0], occupied, colour)
        texts_at.setdefault(n, set()).add(text)


# A failed case, and where it is drawn along y.
_Cross = tuple[FailedCase, float]


def _near_crosses(axes: Axes, crosses: Iterable[_Cross]) -> list[list[_Cross]]:
    """Group the crosses of one n that are near each other, by n and from the lowest up."""
    groups: list[list[_Cross]] = []
    for case, y in sorted(crosses, key=lambda cross: (cross[0].x, cross[1])):
        below, below_y = groups[-1][-1] if groups else (None, y)
        (_, height), (_, below_height) = shares(axes, [(case.x, y), (case.x, below_y)])
        if below and below.x == case.x and height - below_height < _NEAR:
            groups[-1].append((case, y))
        else:
            groups.append([(case, y)])
    return groups


def dense_places(axes: Axes, curves: Iterable[Sequence[tuple[float, float]]]) -> list[NDArray]:
    """The places of curves in axes with final limits, so dense that no curve can cross a label unnoticed."""
    return [np.asarray(Path(shares(axes, points)).interpolated(20).vertices) for points in curves]


def write_label(
    axes: Axes, text: str, at: Iterable[float], occupied: list[NDArray], colour: str, signs: tuple[int, int] = _SIGNS
) -> None:
    """Write a label near the place `at`, inside the panel, where the fewest `occupied` places are, and add its own.

    `signs` is how many characters the panel is wide and high.
    """
    (x, y), wide, high = at, len(text) / signs[0], 1 / signs[1]
    left = min(max(x - wide / 2, 0.02), 0.98 - wide)
    around = [(left, y + step * high) for step in (-1.6, 0.6, -2.6, 1.6, -3.6, 2.6, -4.6, 3.6)]
    beside = [(x - wide - 0.03, y - high / 2), (x + 0.03, y - high / 2)]
    boxes = [Bbox.from_bounds(*corner, wide, high) for corner in (*around, *beside)]
    inside = [box for box in boxes if box.x0 >= 0 and box.x1 <= 1 and box.y0 >= 0.01 and box.y1 <= 0.99]
    best = min(inside or boxes[:1], key=lambda box: sum(map(box.count_contains, occupied)))
    occupied.append(np.asarray(Path(best.corners()).interpolated(20).vertices))
    halo = [withStroke(linewidth=2.5, foreground="white")]
    place = best.x0, best.y0, text
    axes.text(*place, va="bottom", fontsize=8, color=ink(colour), path_effects=halo, transform=axes.transAxes, zorder=5)
