"""A cost against n, for more layers than one pair of axes has room for.

Each family has its own axes, with the other layers in grey behind. Readers cannot tell thirty colours apart and need
not: each curve has its name at its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.report.looks import looks
from harness.report.panels import Panel, Setting, readable
from harness.report.plots import guides
from harness.report.plots.cost import Cost, frame, known
from harness.report.plots.crowd import drawn, told
from harness.report.plots.end_labels import LINE, End, label_ends
from harness.report.plots.failed import failures_named, mark_failures
from harness.report.plots.style import MANY, THEME, axis_of_sizes, title

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


def by_family(setting: Setting, cost: Cost) -> Figure:
    """Draw one setting: a row of families for each (d, h). A single (d, h) has up to two columns of families."""
    setting = readable(setting, _MOST_SHOWN)
    panels = told(setting.panels, cost)
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
        frame(grid[0][0], panels, cost)
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
        handles = [*guides.named(), *others, *failures_named(panels)]
        figure.legend(handles=handles, loc="outside lower center", frameon=False, ncols=len(handles))
    return figure


def groups_of(panels: Sequence[Panel], cost: Cost) -> list[Group]:
    """Group the curves by family, in the order of the looks. Small families share axes, as far as these have room."""
    family = {line.impl: line.family for panel in panels for line in panel.lines}
    there = drawn(panels, cost)
    of_family: dict[str, list[str]] = {}
    for impl in looks(there):
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
    style = looks(panel.impls())
    for impl in panel.impls():
        points = known(panel, impl, cost)
        if not points:
            continue
        x, y = zip(*points, strict=True)
        colour, marker, dash = style[impl]
        if impl in group.impls:
            axes.plot(x, y, color=colour, ls=(0, dash), marker=marker, ms=6, mec="white", mew=0.5, lw=1.3, zorder=3)
        else:
            axes.plot(x, y, color=_OTHERS, lw=0.8, zorder=1.5)
    guides.draw(axes, panel, cost)
    axes.set(xlabel="", ylabel="")


def _name(axes: Axes, panel: Panel, group: Group, cost: Cost, high: float) -> None:
    style = looks(group.impls)
    ends = [
        End(group.name(impl), *points[-1], style[impl].colour)
        for impl in group.impls
        if (points := known(panel, impl, cost))
    ]
    label_ends(axes, ends, high)
