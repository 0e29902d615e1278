"""What each layer costs: a row for each layer, a dot for each n, time beside peak memory."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness import formatting, registry
from harness.formatting import shortened
from harness.report.facets import Panel, PanelSetting
from harness.report.plots.cost_axes import MEMORY, TIME, Cost
from harness.report.plots.style import MANY, THEME, title
from harness.report.text.costs import fullest_setting
from harness.report.text.quality import unsupported_layers
from harness.results.table import CaseResult

# Inches: height of one row, height above and below all rows, and width without the failures' texts.
_ROW, _AROUND, _WIDTH = 0.225, 1.5, 10.0
# The most n that the legend names.
_NAMED = 6
# The most labels on an axis. From this ratio of an axis's ends on, times have labels at powers of ten only.
_TICKS, _WIDE = 7, 3000
# Approximate width of a character of a failure's text, in inches.
_SIGN = 0.065


def ladder(setting: PanelSetting) -> Figure | None:
    """Draw a setting's fullest panel; None if at most `MANY` layers are timed, since their curves show the same."""
    panel = fullest_setting(setting.panels)
    if len({line.impl for line in panel.lines if line.time_s is not None}) <= MANY:
        return None
    impls = ladder_rows(panel)
    sizes = sorted({line.seq_len for line in panel.lines if line.impl in impls})
    shades = dict(zip(sizes, sns.color_palette("blend:#b9d3ea,#0b2a4a", len(sizes)).as_hex(), strict=True))
    with sns.axes_style("whitegrid", rc=THEME), sns.plotting_context(rc=THEME):
        told = max(len(failed_rows(panel, impl)) for impl in impls)
        figure = Figure(figsize=(_WIDTH + _SIGN * told, _ROW * len(impls) + _AROUND), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, cost, text in ((left, TIME, formatting.seconds), (right, MEMORY, formatting.size)):
            _costs(axes, panel, impls, cost, shades)
            _axis_of(axes, panel, cost, text)
        _names(left, panel, impls)
        _failures(right, panel, impls)
        where = f"d = {panel.d_model}, h = {panel.num_heads}"
        title(figure, f"What each layer costs at {where}: {setting.title}")
        figure.legend(handles=_legend(shades), loc="outside lower center", frameon=False, ncols=_NAMED + 1)
    return figure


def ladder_rows(panel: Panel) -> list[str]:
    """The layers in the registry's order, then others, each family together; without those always unsupported."""
    family = {line.impl: line.family for line in panel.lines}
    ours = {impl: i for i, impl in enumerate(registry.names())}
    order = sorted(family.keys() - unsupported_layers(panel.lines), key=lambda impl: (ours.get(impl, len(ours)), impl))
    families = list(dict.fromkeys(family[impl] for impl in order))
    return sorted(order, key=lambda impl: families.index(family[impl]))


def _costs(axes: Axes, panel: Panel, impls: Sequence[str], cost: Cost, shades: dict[int, str]) -> None:
    """Draw the costs as dots, the largest n on top, and the interval at the largest n as a bar."""
    for row, impl in enumerate(impls):
        known = [(line, value) for line in panel.of(impl) if (value := cost.value(line)) is not None]
        if not known:
            continue
        values = [value for _, value in known]
        axes.plot([min(values), max(values)], [row, row], color="0.8", lw=1, zorder=1)
        last = known[-1][0]
        band = cost.band(last)
        if band is not None:
            axes.plot(band, [row, row], color=shades[last.seq_len], lw=1.2, alpha=0.45, zorder=2, solid_capstyle="butt")
        colours = [shades[line.seq_len] for line, _ in known]
        axes.scatter(values, [row] * len(values), s=34, c=colours, edgecolors="white", linewidths=0.5, zorder=3)


def _axis_of(axes: Axes, panel: Panel, cost: Cost, text: Callable[[float], str]) -> None:
    """Make the axis logarithmic and fit it to the values: a very wide interval must not squeeze them."""
    values = [value for line in panel.lines if (value := cost.value(line)) is not None]
    base = 4 if cost is MEMORY else 10
    axes.set_xscale("log", base=base)
    axes.xaxis.set_minor_locator(NullLocator())
    if values:
        lo, hi = min(values) / 1.7, max(values) * 1.7
        axes.set_xlim(lo, hi)
        # Labels are side by side on this axis, so a wide range has fewer of them.
        subs = (1.0, 3.0) if cost is TIME and hi / lo < _WIDE else (1.0,)
        axes.xaxis.set_major_locator(LogLocator(base, subs=subs, numticks=_TICKS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.round_text(text(value))))
    axes.grid(axis="y", visible=False)
    axes.set_title(cost.label)


def _names(axes: Axes, panel: Panel, impls: Sequence[str]) -> None:
    """Name the rows, the first at the top, and draw a line between families."""
    axes.set_yticks(range(len(impls)), [shortened(impl) for impl in impls], fontsize=9)
    axes.set_ylim(len(impls) - 0.4, -0.6)
    family = {line.impl: line.family for line in panel.lines}
    for above, (one, other) in enumerate(pairwise(impls)):
        if family[one] != family[other]:
            for beside in axes.figure.axes:
                beside.axhline(above + 0.5, color="0.35", lw=0.7, zorder=1)


def failed_rows(panel: Panel, impl: str) -> str:
    """`oom from n = 1024`, `timeout at n = 512`, `wrong` if it is so at every n; empty if nothing failed."""
    lines = panel.of(impl)
    statuses = dict.fromkeys(line.status for line in lines if line.status != "ok")
    return ", ".join(f"{status}{_at(status, lines)}" for status in statuses)


def _at(status: str, lines: Sequence[CaseResult]) -> str:
    sizes = [line.seq_len for line in lines if line.status == status]
    if len(sizes) == len(lines):
        return ""
    if len(sizes) > 1 and all(line.status == status for line in lines[-len(sizes) :]):
        return f" from n = {sizes[0]}"
    return f" at n = {' and '.join(map(str, sizes))}" if len(sizes) <= 2 else f" at {len(sizes)} of {len(lines)} n"


def _failures(axes: Axes, panel: Panel, impls: Sequence[str]) -> None:
    """Write failures at the end of their rows, since no place among the dots is free in every run."""
    for row, impl in enumerate(impls):
        text = failed_rows(panel, impl)
        if text:
            axes.text(1.015, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8, color="#a5331c")


def _legend(shades: dict[int, str]) -> list[Line2D]:
    sizes = list(shades)
    some = sorted({sizes[round(i * (len(sizes) - 1) / (_NAMED - 1))] for i in range(_NAMED)})
    dots = [
        Line2D([], [], color=shades[n], marker="o", ms=6, ls="", label=f"n = {n}" if n == some[0] else f"{n}")
        for n in some
    ]
    bar = Line2D([], [], color=shades[sizes[-1]], lw=1.2, alpha=0.45, label="interval of 95 % at the largest n")
    return [*dots, bar]
