"""A cost against n, log-log: one panel for each (d, h), bands for intervals, guides for n and n²."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.report.absent import absent
from harness.report.failures import would_cost
from harness.report.looks import looks
from harness.report.names import short
from harness.report.panels import Panel, Setting
from harness.report.plots.failed import Failed, mark
from harness.report.plots.style import (
    GUIDE,
    MANY,
    THEME,
    axis_of_bytes,
    axis_of_seconds,
    axis_of_sizes,
    legend_columns,
    room_for,
    title,
)
from harness.summary import Line


@dataclass(frozen=True)
class Cost:
    """What stands on the y axis: `value` of a line and `band`, its interval, each None where there is none."""

    label: str
    value: Callable[[Line], float | None]
    band: Callable[[Line], tuple[float, float] | None]
    axis: Callable[[Axes], None]


def _interval(line: Line) -> tuple[float, float] | None:
    if line.time_lo_s is None or line.time_hi_s is None:
        return None
    return line.time_lo_s, line.time_hi_s


TIME = Cost("time of one call", lambda line: line.time_s, _interval, axis_of_seconds)
MEMORY = Cost("peak memory of one call", lambda line: line.peak_bytes or None, lambda _: None, axis_of_bytes)


# Inches of a panel, wide and high; of the only one in a crowded figure.
_PANEL, _LARGE = (4.2, 3.3), (6.2, 5.0)


def curves(setting: Setting, cost: Cost) -> Figure:
    """The figure for one setting."""
    panels = _told(setting.panels, cost)
    crowded = _crowded(panels, cost)
    impls = [impl for impl in looks(_impls(panels)) if impl in _impls(panels)]
    widths = sorted({panel.d_model for panel in panels})
    columns = max(sum(panel.d_model == d for panel in panels) for d in widths)
    wide, high = _LARGE if crowded and len(panels) == 1 else _PANEL
    with sns.axes_style("whitegrid", rc=THEME), sns.plotting_context(rc=THEME):
        height = high * len(widths) + 1.1
        handles = _legend([impl for impl in impls if not crowded or _drawn(panels, impl, cost)], panels)
        beside = legend_columns(len(handles), height)
        figure = Figure(figsize=(wide * columns + room_for(beside), height), layout="constrained")
        grid = figure.subplots(len(widths), columns, squeeze=False, sharex=True, sharey=True)
        for row, d in enumerate(widths):
            of_row = [panel for panel in panels if panel.d_model == d]
            for column in range(columns):
                if column < len(of_row):
                    _panel(grid[row][column], of_row[column], cost, crowded)
                else:
                    grid[row][column].set_axis_off()
        _frame(grid[0][0], panels, cost)
        for row, d in enumerate(widths):
            # Texts look for a free place, and so come when the axes have their ends.
            for column, panel in enumerate(panel for panel in panels if panel.d_model == d):
                _failures(grid[row][column], panel, cost)
        title(figure, f"{cost.label.capitalize()} against sequence length: {setting.title}")
        figure.supxlabel("sequence length n")
        figure.supylabel(cost.label)
        figure.legend(handles=handles, loc="outside right center", frameon=False, ncols=beside)
    return figure


def _told(panels: Sequence[Panel], cost: Cost) -> list[Panel]:
    """The panels without unsupported cases: of impls that are so everywhere, and where it is crowded of all."""
    gone = absent(line for panel in panels for line in panel.lines)
    crowded = _crowded(panels, cost)
    return [
        replace(
            panel,
            lines=tuple(
                line for line in panel.lines if line.impl not in gone and not (crowded and line.status == "unsupported")
            ),
        )
        for panel in panels
    ]


def _crowded(panels: Sequence[Panel], cost: Cost) -> bool:
    return sum(_drawn(panels, impl, cost) for impl in _impls(panels)) > MANY


def _drawn(panels: Sequence[Panel], impl: str, cost: Cost) -> bool:
    return any(_known(panel, impl, cost) for panel in panels)


def _impls(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(impl for panel in panels for impl in panel.impls()))


def _frame(axes: Axes, panels: Sequence[Panel], cost: Cost) -> None:
    """Fit the shared y axis to the values: a band that knows nothing must not squeeze what is known."""
    values = [value for panel in panels for line in panel.lines if (value := cost.value(line)) is not None]
    if values:
        axes.set_ylim(min(values) / 3, max(values) * 3)


def _panel(axes: Axes, panel: Panel, cost: Cost, crowded: bool) -> None:
    axes.set_title(f"d = {panel.d_model}, h = {panel.num_heads}")
    if not panel.lines:  # all unsupported: the shared axes are left to those that have something
        return
    cost.axis(axes)
    axis_of_sizes(axes, (line.seq_len for line in panel.lines))
    style = looks(panel.impls())
    for i, impl in enumerate(panel.impls()):
        colour, marker = style[impl]
        # The first is drawn widest, so that it shows beside what lies exactly on it.
        width = 1.0 if crowded else max(1.4, 3.8 - 0.6 * i)
        known = _known(panel, impl, cost)
        if known:
            x, y = zip(*known, strict=True)
            # As seaborn's lineplot draws it, in a tenth of the time.
            axes.plot(x, y, color=colour, marker=marker, ms=5 + width, mec="white", mew=0.75, lw=width)
        bands = [(line.seq_len, *band) for line in panel.of(impl) if (band := cost.band(line)) is not None]
        if bands and not crowded:
            n, lo, hi = zip(*bands, strict=True)
            axes.fill_between(n, lo, hi, color=colour, alpha=0.2, lw=0)
    _guides(axes, panel, cost)
    axes.set(xlabel="", ylabel="")


def _known(panel: Panel, impl: str, cost: Cost) -> list[tuple[int, float]]:
    return [(line.seq_len, value) for line in panel.of(impl) if (value := cost.value(line)) is not None]


def _failures(axes: Axes, panel: Panel, cost: Cost) -> None:
    style = looks(panel.impls())
    failed = [
        Failed(line.seq_len, would_cost(line.seq_len, _known(panel, impl, cost)), line.status, style[impl][0])
        for impl in panel.impls()
        for line in panel.of(impl)
        if line.status != "ok" and cost.value(line) is None
    ]
    mark(axes, failed, [_known(panel, impl, cost) for impl in panel.impls()])


# Dashes by power, which the legend names: beside the lines there is seldom a free place.
_DASHES = {1: (0, (6, 3)), 2: (0, (1.5, 2))}


def _guides(axes: Axes, panel: Panel, cost: Cost) -> None:
    """Grey lines of slope 1 and 2 from the panel's lower left: only their slope means something."""
    values = [value for line in panel.lines if (value := cost.value(line)) is not None]
    sizes = sorted({line.seq_len for line in panel.lines})
    if not values or len(sizes) < 2:
        return
    start = min(values) * 0.6
    for power, dashes in _DASHES.items():
        # A guide that left the panel at its top would stretch the axis: it ends at the highest value.
        end = min(sizes[-1], sizes[0] * (max(values) / start) ** (1 / power))
        axes.plot([sizes[0], end], [start, start * (end / sizes[0]) ** power], color=GUIDE, ls=dashes, lw=1, zorder=1)


def _legend(impls: Sequence[str], panels: Sequence[Panel]) -> list[Line2D]:
    style = looks(impls)
    handles = [Line2D([], [], color=style[impl][0], marker=style[impl][1], ms=6, label=short(impl)) for impl in impls]
    for power, label in ((1, "∝ n"), (2, "∝ n²")):
        handles.append(Line2D([], [], color=GUIDE, ls=_DASHES[power], lw=1, label=label))
    if any(line.status != "ok" for panel in panels for line in panel.lines):
        handles.append(
            Line2D([], [], color="0.2", marker="x", ms=8, mew=2, ls="", label="failed, where\nit would have been")
        )
    return handles
