"""A cost against n, log-log: one panel for each (d, h), bands for intervals, guides for n and n².

If the layers are more than one pair of axes has room for, each family has its own axes: see `by_family.py`.
"""

from collections.abc import Sequence

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.report.looks import looks
from harness.report.names import short
from harness.report.panels import Panel, Setting
from harness.report.plots import guides
from harness.report.plots.by_family import by_family
from harness.report.plots.cost import Cost, frame, known
from harness.report.plots.crowd import impls_of, is_crowded, told
from harness.report.plots.failed import failures_named, mark_failures
from harness.report.plots.style import THEME, axis_of_sizes, legend_columns, room_for, title

# Width and height of a panel, in inches.
_WIDE, _HIGH = 4.2, 3.3


def curves(setting: Setting, cost: Cost) -> Figure:
    """Draw the figure for one setting."""
    if is_crowded(setting.panels, cost):
        return by_family(setting, cost)
    panels = told(setting.panels, cost)
    widths = sorted({panel.d_model for panel in panels})
    columns = max(sum(panel.d_model == d for panel in panels) for d in widths)
    with sns.axes_style("whitegrid", rc=THEME), sns.plotting_context(rc=THEME):
        height = _HIGH * len(widths) + 1.1
        handles = _legend(panels)
        beside = legend_columns(len(handles), height)
        figure = Figure(figsize=(_WIDE * columns + room_for(beside), height), layout="constrained")
        grid = figure.subplots(len(widths), columns, squeeze=False, sharex=True, sharey=True)
        for row, d in enumerate(widths):
            of_row = [panel for panel in panels if panel.d_model == d]
            for column in range(columns):
                if column < len(of_row):
                    _panel(grid[row][column], of_row[column], cost)
                else:
                    grid[row][column].set_axis_off()
        frame(grid[0][0], panels, cost)
        for row, d in enumerate(widths):
            # Labels look for free space, so they come after the axes have their limits.
            for column, panel in enumerate(panel for panel in panels if panel.d_model == d):
                mark_failures(grid[row][column], panel, cost)
        title(figure, f"{cost.label.capitalize()} against sequence length: {setting.title}")
        figure.supxlabel("sequence length n")
        figure.supylabel(cost.label)
        figure.legend(handles=handles, loc="outside right center", frameon=False, ncols=beside)
    return figure


def _panel(axes: Axes, panel: Panel, cost: Cost) -> None:
    axes.set_title(f"d = {panel.d_model}, h = {panel.num_heads}")
    if not panel.lines:  # all unsupported: the panels with cases determine the shared axes
        return
    cost.axis(axes)
    axis_of_sizes(axes, (line.seq_len for line in panel.lines))
    style = looks(panel.impls())
    for i, impl in enumerate(panel.impls()):
        colour, marker, dash = style[impl]
        # The first line is the widest, so that it shows beside a line exactly on top of it.
        width = max(1.4, 3.8 - 0.6 * i)
        points = known(panel, impl, cost)
        if points:
            x, y = zip(*points, strict=True)
            # Looks like seaborn's lineplot, in a tenth of the time.
            axes.plot(x, y, color=colour, ls=(0, dash), marker=marker, ms=5 + width, mec="white", mew=0.75, lw=width)
        bands = [(line.seq_len, *band) for line in panel.of(impl) if (band := cost.band(line)) is not None]
        if bands:
            n, lo, hi = zip(*bands, strict=True)
            axes.fill_between(n, lo, hi, color=colour, alpha=0.2, lw=0)
    guides.draw(axes, panel, cost)
    axes.set(xlabel="", ylabel="")


def _legend(panels: Sequence[Panel]) -> list[Line2D]:
    style = looks(impls_of(panels))
    looks_so = [(impl, style[impl]) for impl in style if impl in impls_of(panels)]
    handles = [
        Line2D([], [], color=look.colour, ls=(0, look.dash), marker=look.marker, ms=6, label=short(impl))
        for impl, look in looks_so
    ]
    return [*handles, *guides.named(), *failures_named(panels)]
