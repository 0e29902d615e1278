"""A cost against n, log-log, with bands for intervals, guides for n and n², and crosses for failed cases.

`curves` draws one panel for each (d, h). If the layers are more than one pair of axes has room for, `by_family` gives
each family its own axes.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from harness.formatting import shortened
from harness.report.facets import Panel, PanelSetting, looks_of, readable_setting
from harness.report.plots import cost_axes
from harness.report.plots.cost_axes import (
    LINE,
    Cost,
    EndLabel,
    cost_frame,
    crowd_sentence,
    drawn_layers,
    impls_of,
    is_crowded,
    known_cost,
    label_ends,
)
from harness.report.plots.style import MANY, THEME, axis_of_sizes, legend_columns, room_for, title
from harness.report.text.quality import expected_cost

# Crosses nearer to each other than this share of the panel's height have one label.
_NEAR = 0.08
# Height of a cross without a cost, as a share of the panel's height from below.
_TOP = 0.94
# Approximate width and height of a panel, in characters of a label.
_WIDTH, _HEIGHT = 58, 15


@dataclass(frozen=True)
class Failed:
    """One case: its n, what it would have cost (None if unknown), its status and its layer's colour."""

    n: int
    cost: float | None
    status: str
    colour: str


@dataclass(frozen=True)
class Place:
    """A point in a panel, as shares of its width and height from its lower left corner."""

    x: float
    y: float


def mark_failures(axes: Axes, panel: Panel, cost: Cost, impls: Collection[str] | None = None) -> None:
    """Draw the failed cases of a panel, of all layers or of `impls`, on axes whose limits are final."""
    some = panel.impls() if impls is None else [impl for impl in panel.impls() if impl in impls]
    style = looks_of(some)
    failed = [
        Failed(
            line.seq_len, expected_cost(line.seq_len, known_cost(panel, impl, cost)), line.status, style[impl].colour
        )
        for impl in some
        for line in panel.of(impl)
        if line.status != "ok" and cost.value(line) is None
    ]
    mark_failure(axes, failed, [known_cost(panel, impl, cost) for impl in panel.impls()])


def failures_named(panels: Iterable[Panel]) -> list[Line2D]:
    """The legend's entry for failed cases; no entry if no case failed."""
    if all(line.status == "ok" for panel in panels for line in panel.lines):
        return []
    return [Line2D([], [], color="0.2", marker="x", ms=8, mew=2, ls="", label="failed, where\nit would have been")]


def mark_failure(axes: Axes, failed: Sequence[Failed], curves: Iterable[Sequence[tuple[float, float]]]) -> None:
    """Draw a cross where each failed case would have been, and one label for crosses close together.

    The limits of the axes are final. `curves` are the (n, cost) that labels should avoid.
    """
    if not failed:
        return
    taken = [place for curve in curves for place in _mark_axis([_mark_place(axes, n, cost) for n, cost in curve])]
    said: dict[int, set[str]] = {}
    for group in failures_by_size(axes, failed):
        for one, place in group:
            # At its cost, if that is within the panel.
            height, transform = _TOP, axes.get_xaxis_transform()
            if one.cost is not None and place.y < _TOP:
                height, transform = one.cost, axes.transData
            axes.plot(
                [one.n], [height], marker="x", ms=8, mew=2, ls="", color=one.colour, transform=transform, zorder=4
            )
        n, text = group[0][0].n, ", ".join(dict.fromkeys(one.status for one, _ in group))
        # A label that the previous n already has is not repeated.
        before = max((size for size in said if size < n), default=None)
        if before is None or text not in said[before]:
            colours = {one.colour for one, _ in group}
            _write_names(axes, text, group[0][1], taken, colours.pop() if len(colours) == 1 else "0.2")
        said.setdefault(n, set()).add(text)


def failures_by_size(axes: Axes, failed: Iterable[Failed]) -> list[list[tuple[Failed, Place]]]:
    """Group the cases of one n that are near each other, by n and from the lowest up."""
    placed = [(one, _mark_place(axes, one.n, one.cost)) for one in failed]
    groups: list[list[tuple[Failed, Place]]] = []
    for one, place in sorted(placed, key=lambda pair: (pair[0].n, pair[1].y)):
        if groups and groups[-1][-1][0].n == one.n and place.y - groups[-1][-1][1].y < _NEAR:
            groups[-1].append((one, place))
        else:
            groups.append([(one, place)])
    return groups


def _mark_place(axes: Axes, n: float, cost: float | None) -> Place:
    x = _share(n, axes.get_xlim())
    return Place(x, _TOP if cost is None else min(_TOP, _share(cost, axes.get_ylim())))


def _share(value: float, ends: tuple[float, float]) -> float:
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


def _mark_axis(corners: Sequence[Place]) -> list[Place]:
    """Places on the line through the corners, so dense that the line cannot cross a label unnoticed."""
    steps = [i / 20 for i in range(20)]
    between = [
        Place(a.x + (b.x - a.x) * step, a.y + (b.y - a.y) * step) for a, b in pairwise(corners) for step in steps
    ]
    return [*between, *corners[-1:]]


def _write_names(axes: Axes, text: str, at: Place, taken: Sequence[Place], colour: str) -> None:
    """Write a label near the cross, inside the panel, where the fewest curves run."""
    wide, high = len(text) / _WIDTH, 1 / _HEIGHT
    left = min(max(at.x - wide / 2, 0.02), 0.98 - wide)
    beside = [(at.x - wide - 0.03, at.y - high / 2), (at.x + 0.03, at.y - high / 2)]
    around = [(left, at.y + step * high) for step in (-1.6, 0.6, -2.6, 1.6, -3.6, 2.6, -4.6, 3.6)]
    inside = [(x, y) for x, y in (*around, *beside) if x >= 0 and x + wide <= 1 and y >= 0.01 and y + high <= 0.99]
    x, y = min(inside or around[:1], key=lambda corner: _covered(corner, wide, high, taken))
    axes.text(
        *(x, y, text),
        transform=axes.transAxes,
        fontsize=8,
        va="bottom",
        color=colour,
        zorder=5,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )


def _covered(corner: tuple[float, float], wide: float, high: float, taken: Sequence[Place]) -> int:
    x, y = corner
    return sum(x <= place.x <= x + wide and y <= place.y <= y + high for place in taken)


# The most widths, and the most numbers of heads, that one plot has room for.
_MOST_SHOWN = 2
# Families with fewer curves than this share a pair of axes.
_FEW = 3
# Inches of one pair of axes: its width with names, its least height, and the part of the height that names cannot use.
# The axes are higher if their names need more.
_WIDE, _HIGH, _AROUND = 5.6, 3.6, 0.9
_OTHERS = "0.86"


@dataclass(frozen=True)
class Group:
    """The curves of one pair of axes. The title names every family in it."""

    families: tuple[str, ...]
    impls: tuple[str, ...]

    def name(self, impl: str) -> str:
        """The layer's name, without the family if the title has only that one."""
        (only, *others) = self.families
        return impl if others else impl.removeprefix(f"{only}.")


def by_family(setting: PanelSetting, cost: Cost) -> Figure:
    """Draw one setting: a row of families for each (d, h). A single (d, h) has up to two columns of families.

    Each family has its own axes, with the other layers in grey behind. Readers cannot tell thirty colours apart and
    need not: each curve has its name at its end.
    """
    setting = readable_setting(setting, _MOST_SHOWN)
    panels = crowd_sentence(setting.panels, cost)
    groups = groups_of(panels, cost)
    cells = [(panel, group) for panel in panels for group in groups]
    columns = len(groups) if len(panels) > 1 else min(len(groups), 2)
    rows = -(-len(cells) // columns)
    high = max(_HIGH, LINE * max(len(group.impls) for group in groups) + _AROUND)
    with sns.axes_style("whitegrid", rc=THEME), sns.plotting_context(rc=THEME):
        figure = Figure(figsize=(_WIDE * columns, high * rows + 1.1), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, (panel, group) in zip(grid.flat, cells, strict=False):
            _panel(axes, panel, group, cost, several=len(panels) > 1)
        for empty in grid.flat[len(cells) :]:
            empty.set_axis_off()
        cost_frame(grid[0][0], panels, cost)
        for i, (axes, (panel, group)) in enumerate(zip(grid.flat, cells, strict=False)):
            # Labels look for free space, so they come after the axes have their limits.
            mark_failures(axes, panel, cost, group.impls)
            _name(axes, panel, group, cost, high - _AROUND)
            lowest = i + columns >= len(cells)
            axes.tick_params(labelbottom=lowest)
            axes.set_xlabel("sequence length n" if lowest else "")
        title(figure, f"{cost.label.capitalize()} against sequence length: {setting.title}")
        figure.supylabel(cost.label)
        others = [Line2D([], [], color=_OTHERS, lw=1, label="the other layers")] if len(groups) > 1 else []
        handles = [*cost_axes.name_guides(), *others, *failures_named(panels)]
        figure.legend(handles=handles, loc="outside lower center", frameon=False, ncols=len(handles))
    return figure


def groups_of(panels: Sequence[Panel], cost: Cost) -> list[Group]:
    """Group the curves by family, in the order of the looks. Small families share axes, as far as these have room."""
    family = {line.impl: line.family for panel in panels for line in panel.lines}
    there = drawn_layers(panels, cost)
    of_family: dict[str, list[str]] = {}
    for impl in looks_of(there):
        if impl in there:
            of_family.setdefault(family[impl], []).append(impl)
    large = [Group((name,), tuple(impls)) for name, impls in of_family.items() if len(impls) >= _FEW]
    small: list[Group] = []
    for name, impls in of_family.items():
        if len(impls) >= _FEW:
            continue
        if small and len(small[-1].impls) + len(impls) <= MANY:
            last = small.pop()
            small.append(Group((*last.families, name), (*last.impls, *impls)))
        else:
            small.append(Group((name,), tuple(impls)))
    return [*large, *small]


def _panel(axes: Axes, panel: Panel, group: Group, cost: Cost, several: bool) -> None:
    sizes = f", d = {panel.d_model}, h = {panel.num_heads}" if several else ""
    axes.set_title(", ".join(group.families) + sizes)
    if not panel.lines:
        return
    cost.axis(axes)
    axis_of_sizes(axes, (line.seq_len for line in panel.lines))
    style = looks_of(panel.impls())
    for impl in panel.impls():
        points = known_cost(panel, impl, cost)
        if not points:
            continue
        x, y = zip(*points, strict=True)
        colour, marker, dash = style[impl]
        if impl in group.impls:
            axes.plot(x, y, color=colour, ls=(0, dash), marker=marker, ms=6, mec="white", mew=0.5, lw=1.3, zorder=3)
        else:
            axes.plot(x, y, color=_OTHERS, lw=0.8, zorder=1.5)
    cost_axes.draw_guides(axes, panel, cost)
    axes.set(xlabel="", ylabel="")


def _name(axes: Axes, panel: Panel, group: Group, cost: Cost, high: float) -> None:
    style = looks_of(group.impls)
    ends = [
        EndLabel(group.name(impl), *points[-1], style[impl].colour)
        for impl in group.impls
        if (points := known_cost(panel, impl, cost))
    ]
    label_ends(axes, ends, high)


# Width and height of a panel, in inches.
_PANEL_WIDE, _PANEL_HIGH = 4.2, 3.3


def curves(setting: PanelSetting, cost: Cost) -> Figure:
    """Draw one setting: a panel for each (d, h), or one for each family if there are too many layers."""
    if is_crowded(setting.panels, cost):
        return by_family(setting, cost)
    panels = crowd_sentence(setting.panels, cost)
    widths = sorted({panel.d_model for panel in panels})
    columns = max(sum(panel.d_model == d for panel in panels) for d in widths)
    with sns.axes_style("whitegrid", rc=THEME), sns.plotting_context(rc=THEME):
        height = _PANEL_HIGH * len(widths) + 1.1
        handles = _legend(panels)
        beside = legend_columns(len(handles), height)
        figure = Figure(figsize=(_PANEL_WIDE * columns + room_for(beside), height), layout="constrained")
        grid = figure.subplots(len(widths), columns, squeeze=False, sharex=True, sharey=True)
        for row, d in enumerate(widths):
            of_row = [panel for panel in panels if panel.d_model == d]
            for column in range(columns):
                if column < len(of_row):
                    _layers_panel(grid[row][column], of_row[column], cost)
                else:
                    grid[row][column].set_axis_off()
        cost_frame(grid[0][0], panels, cost)
        for row, d in enumerate(widths):
            # Labels look for free space, so they come after the axes have their limits.
            for column, panel in enumerate(panel for panel in panels if panel.d_model == d):
                mark_failures(grid[row][column], panel, cost)
        title(figure, f"{cost.label.capitalize()} against sequence length: {setting.title}")
        figure.supxlabel("sequence length n")
        figure.supylabel(cost.label)
        figure.legend(handles=handles, loc="outside right center", frameon=False, ncols=beside)
    return figure


def _layers_panel(axes: Axes, panel: Panel, cost: Cost) -> None:
    axes.set_title(f"d = {panel.d_model}, h = {panel.num_heads}")
    if not panel.lines:  # all unsupported: the panels with cases determine the shared axes
        return
    cost.axis(axes)
    axis_of_sizes(axes, (line.seq_len for line in panel.lines))
    style = looks_of(panel.impls())
    for i, impl in enumerate(panel.impls()):
        colour, marker, dash = style[impl]
        # The first line is the widest, so that it shows beside a line exactly on top of it.
        width = max(1.4, 3.8 - 0.6 * i)
        points = known_cost(panel, impl, cost)
        if points:
            x, y = zip(*points, strict=True)
            # Looks like seaborn's lineplot, in a tenth of the time.
            axes.plot(x, y, color=colour, ls=(0, dash), marker=marker, ms=5 + width, mec="white", mew=0.75, lw=width)
        bands = [(line.seq_len, *band) for line in panel.of(impl) if (band := cost.band(line)) is not None]
        if bands:
            n, lo, hi = zip(*bands, strict=True)
            axes.fill_between(n, lo, hi, color=colour, alpha=0.2, lw=0)
    cost_axes.draw_guides(axes, panel, cost)
    axes.set(xlabel="", ylabel="")


def _legend(panels: Sequence[Panel]) -> list[Line2D]:
    style = looks_of(impls_of(panels))
    looks_so = [(impl, style[impl]) for impl in style if impl in impls_of(panels)]
    handles = [
        Line2D([], [], color=look.colour, ls=(0, look.dash), marker=look.marker, ms=6, label=shortened(impl))
        for impl, look in looks_so
    ]
    return [*handles, *cost_axes.name_guides(), *failures_named(panels)]
