"""Plots of all layers of a setting at a glance: their costs in rows, their speed-ups, and the roofline.

The roofline is FLOP/s against FLOPs a byte, with every case under its machine's limits: Williams, Waterman, Patterson
2009, figure 1. `draw` writes these and all other plots of a run.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.core.config.machine import Machine
from harness.core.model import formatting
from harness.study.laws.crossovers import CostRatio, layers_without_heads
from harness.study.laws.roofline import Roof, RoofPoint, roof_points, roofs
from harness.study.report import figure_panels as parts
from harness.study.report.chart import Chart, bars_caption, looks_of, size_axis
from harness.study.report.document import grouped
from harness.study.report.figure_panels import MANY, Cost, Lines, Panel, PanelSetting
from harness.study.report.overview import COSTS, Overview
from harness.study.report.point_charts import accuracy_chart, pareto_front, roofline_chart
from harness.study.report.text.costs import is_sure, time_ratio
from impls.registry import IMPLS

from . import style
from .cost_overview import cost_overview
from .curves import curves, dense_places, draw_curves, write_label
from .style import GUIDE, canvas, error_bars, log_axes

# Inches: height of one row, height above and below all rows, and width without the failures' texts.
_ROW, _AROUND, _WIDTH = 0.225, 1.1, 10.0
# The most n that the legend names.
_NAMED = 6
# Approximate width of a character of a failure's text, in inches.
_SIGN = 0.065


def ladder(setting: PanelSetting) -> Figure | None:
    """Draw a row for each layer of the fullest panel, with a dot for each n: time beside peak memory.

    None if at most `MANY` layers are timed, since their curves show the same.
    """
    panel = parts.fullest_panel(setting.panels)
    if len({line.impl for line in panel.lines if line.time_s is not None}) <= MANY:
        return None
    impls = ladder_rows(panel)
    sizes = sorted({line.seq_len for line in panel.lines if line.impl in impls})
    shades = dict(zip(sizes, sns.color_palette("blend:#b9d3ea,#0b2a4a", len(sizes)).as_hex(), strict=True))
    failures = [failed_rows(panel, impl) for impl in impls]
    width = _WIDTH + _SIGN * max(map(len, failures))
    title = f"What each of {len(impls)} layers costs (d = {panel.d_model}, h = {panel.num_heads})"
    chart = parts.cost_chart(panel, parts.TIME, parts.TIME.axis_of([panel]))
    hollow = bars_caption(chart.curves, chart.y, drawn=False) if chart else ""
    caption = "; ".join(filter(None, (setting.title, hollow)))
    with canvas(width, _ROW * len(impls) + _AROUND, title, caption) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, cost in ((left, parts.TIME), (right, parts.MEMORY)):
            _dots(axes, panel, impls, cost, shades)
        _names(left, panel, impls)
        for row, text in enumerate(failures):
            # At the end of the rows, since no place among the dots is free in every run.
            place = right.get_yaxis_transform()
            if text:
                right.text(1.015, row, text, transform=place, va="center", fontsize=8, color="#a5331c")
        some = parts.evenly_spread(sizes, _NAMED)
        dots = [Line2D([], [], color=shades[n], marker="o", ms=6, ls="", label=str(n)) for n in some]
        dots[0].set_label(f"n = {some[0]}")
        bar = Line2D([], [], color=shades[sizes[-1]], lw=1.2, alpha=0.45, label="95 % interval at the largest n")
        figure.legend(handles=[*dots, bar], loc="outside lower center", frameon=False, ncols=_NAMED + 1)
    return figure


def ladder_rows(panel: Panel) -> list[str]:
    """The layers in the registry's order, then others, each family together; without those always unsupported."""
    family = panel.families()
    ours = {impl: i for i, impl in enumerate(IMPLS)}
    supported = family.keys() - parts.unsupported_layers(panel.lines)
    order = sorted(supported, key=lambda impl: (ours.get(impl, len(ours)), impl))
    return [impl for impls in grouped(order, lambda impl: family[impl]).values() for impl in impls]


def _dots(axes: Axes, panel: Panel, impls: Sequence[str], cost: Cost, shades: Mapping[int, str]) -> None:
    """Draw the costs as dots, the largest n on top, and the interval at the largest n as a bar."""
    axis = cost.axis_of([panel], room=1.7)
    if axis is None:
        axes.set_xticks([])
    else:
        log_axes(axes, x=axis)
    curves_of = {curve.impl: curve for curve in parts.cost_curves(panel, cost)}
    for row, impl in enumerate(impls):
        if impl not in curves_of:
            continue
        curve = curves_of[impl]
        axes.plot([min(curve.y), max(curve.y)], [row, row], color="0.8", lw=1, zorder=1)
        last = curve.points[-1]
        error_bars(axes, [replace(last, x=row)], shades[last.n], "x", lw=1.2, alpha=0.45, zorder=2)
        colours = [shades[point.n] for point in curve.points]
        hollow = [point.hollow for point in curve.points]
        inside, edges = np.where(hollow, "white", colours).tolist(), np.where(hollow, colours, "white").tolist()
        axes.scatter(curve.y, [row] * len(colours), s=34, c=inside, edgecolors=edges, linewidths=0.8, zorder=3)
    axes.grid(axis="y", visible=False)
    axes.set_title(cost.label)


def _names(axes: Axes, panel: Panel, impls: Sequence[str]) -> None:
    """Name the rows, the first at the top, and draw a line between families."""
    axes.set_yticks(range(len(impls)), [formatting.shortened(impl) for impl in impls], fontsize=9)
    axes.set_ylim(len(impls) - 0.4, -0.6)
    family = panel.families()
    for above, (upper, lower) in enumerate(pairwise(impls)):
        if family[upper] != family[lower]:
            for beside in axes.figure.axes:
                beside.axhline(above + 0.5, color="0.35", lw=0.7, zorder=1)


def failed_rows(panel: Panel, impl: str) -> str:
    """`oom from n = 1024`, `timeout at n = 512`, `incorrect` if it is so at every n; empty if nothing failed."""
    lines = panel.of(impl)
    statuses = dict.fromkeys(line.status for line in lines if line.status != "ok")
    return ", ".join(f"{status}{_at(status, lines)}" for status in statuses)


def _at(status: str, lines: Lines) -> str:
    sizes = [line.seq_len for line in lines if line.status == status]
    if len(sizes) == len(lines):
        return ""
    if len(sizes) > 1 and all(line.status == status for line in lines[-len(sizes) :]):
        return f" from n = {sizes[0]}"
    return f" at n = {' and '.join(map(str, sizes))}" if len(sizes) <= 2 else f" at {len(sizes)} of {len(lines)} n"


BASELINE = "attention.naive"
# Beyond this factor the colour no longer changes; the number in the cell still gives the factor.
_FULL_COLOUR = 8.0
# With more sizes than this their labels are rotated.
_FLAT = 8
_UNMEASURED = "0.80"


def speedup(setting: PanelSetting, baseline: str = BASELINE) -> Figure | None:
    """Draw how many times as fast as the baseline each layer is, over (n, d): a heat map for each layer and h.

    A cell has a ~ and no colour if the interval of its ratio contains 1. None if the baseline, or everything else, was
    not measured.
    """
    ratios = speed_ratios(setting, baseline)
    if not ratios:
        return None
    heads, impls, widths, sizes = (sorted(set(values)) for values in zip(*ratios, strict=True))
    width = max(5.5, 0.62 * len(sizes) * len(heads) + 2.0)
    height = (0.42 * len(widths) + 0.45) * len(impls) + 0.7
    caption = f"{setting.title}; purple: faster, orange: slower, ~: within measurement error, grey: not measured"
    most = math.log2(_FULL_COLOUR)
    look: dict[str, Any] = {"cmap": "PuOr", "center": 0, "vmin": -most, "vmax": most, "cbar": False}
    look |= {"linewidths": 0.5, "fmt": "", "annot_kws": {"fontsize": 9}}
    with canvas(width, height, _speedup_title(ratios, baseline), caption, style="white") as figure:
        cells = figure.subplots(len(impls), len(heads), squeeze=False)
        for (row, impl), (column, h) in product(enumerate(impls), enumerate(heads)):
            axes = cells[row][column]
            colours = np.full((len(widths), len(sizes)), np.nan)
            texts = np.full(colours.shape, "", dtype=object)
            for (y, d), (x, n) in product(enumerate(widths), enumerate(sizes)):
                ratio = ratios.get((h, impl, d, n))
                if ratio is not None:
                    sure = is_sure(ratio)
                    colours[y, x] = sure * ratio.value / math.log(2)
                    texts[y, x] = "~" * (not sure) + _ratio_text(ratio.ratio[0])
            below = sizes if row == len(impls) - 1 else False
            beside = widths if column == 0 else False
            sns.heatmap(colours, annot=texts, ax=axes, xticklabels=below, yticklabels=beside, **look)
            for text in axes.texts:
                x, y = map(int, text.get_position())
                text.set_color("white" if abs(colours[y, x]) > 0.75 * most else "0.15")
            axes.set_facecolor(_UNMEASURED)
            axes.set_title(f"{formatting.shortened(impl)}, h = {h}")
            axes.tick_params(axis="y", rotation=0)
            axes.tick_params(axis="x", rotation=45 if len(sizes) > _FLAT else 0)
        figure.supxlabel("sequence length n")
        figure.supylabel("width d")
    return figure


_Ratios = Mapping[tuple[int, str, int, int], CostRatio]


def speed_ratios(setting: PanelSetting, baseline: str) -> _Ratios:
    """The time of the baseline over that of each other layer, as a logarithm with its interval, by (h, impl, d, n)."""
    ratios = {}
    for panel in setting.panels:
        base_at = {line.seq_len: line for line in panel.of(baseline)}
        for line in panel.lines:
            ratio = time_ratio(base_at.get(line.seq_len), line)
            if ratio and line.impl != baseline:
                ratios[panel.num_heads, line.impl, line.d_model, line.seq_len] = ratio
    return ratios


def _speedup_title(ratios: _Ratios, baseline: str) -> str:
    """The largest ratio and, if it is below 1, the smallest, with their layers: of the ratios that are surely not 1."""
    base = formatting.printable(baseline)
    sure = [(ratio.value, ratio.ratio[0], impl) for (_, impl, *_), ratio in ratios.items() if is_sure(ratio)]
    if not sure:
        return f"No layer is surely faster or slower than {base}"
    (least, down, slowest), (most, up, fastest) = min(sure), max(sure)
    of_slowest = f"down to {_ratio_text(down)} times{{}} ({formatting.printable(slowest)})"
    if most < 0:
        return f"Never surely faster than {base}, {of_slowest.format(' as fast')}"
    of_fastest = f"Up to {_ratio_text(up)} times as fast as {base} ({formatting.printable(fastest)})"
    return f"{of_fastest}, {of_slowest.format('')}" if least < 0 else of_fastest


def _ratio_text(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2f}"


# Width and height of the roofline, in inches.
_ROOFLINE = (7.6, 4.8)
# The areas of its markers at the smallest and the largest n, in square points.
_AREAS = (18, 68)
# Approximate width and height of its axes, in characters of a name.
_SIGNS = (105, 26)


def roofline(setting: PanelSetting, roofs: Sequence[Roof], points: Sequence[RoofPoint]) -> Figure | None:
    """Draw the roofline of a setting's fullest panel; None if the setting has no roof or no points under it."""
    panel = parts.fullest_panel(setting.panels)
    facets = parts.by_facet(points, layers_without_heads([point.line for point in points]))
    panel_points = parts.of_panel(facets, setting, panel)
    chart = roofline_chart(parts.roof_of_setting(roofs, setting), panel_points)
    if chart is None:
        return None
    best = max(panel_points, key=lambda point: point.share)
    nearest = f"{formatting.printable(best.line.impl)} comes nearest to the roof"
    title = f"{nearest}: {formatting.share(best.share)} (n = {best.line.seq_len})"
    return _points_figure(setting, chart, title, ["bytes: the minimum traffic"], panel.impls())


def accuracy(setting: PanelSetting) -> Figure | None:
    """Draw the errors of a setting's fullest panel against their times, with the Pareto front at the largest n.

    None if fewer than two layers have both.
    """
    panel = parts.fullest_panel(setting.panels)
    chart = accuracy_chart(panel)
    if chart is None:
        return None
    at_n = {curve.impl: point.place for curve in chart.curves for point in curve.points if point.n == chart.n}
    named = _named(panel, at_n)
    captions = [f"grey line: the Pareto front at n = {chart.n}"]
    if len(named) < len(chart.curves):
        captions.append(f"{len(named)} of {len(chart.curves)} layers named: the front, and the fastest of families")
    return _points_figure(setting, chart, _accuracy_title(at_n, chart.n), captions, named)


def _points_figure(
    setting: PanelSetting, chart: Chart, title: str, captions: Iterable[str], named: Collection[str]
) -> Figure:
    """Draw guides, and a curve for each layer whose markers grow with n.

    The `named` layers have their names near the largest n, off guides and curves. The others are thin.
    """
    panel = parts.fullest_panel(setting.panels)
    widths = f"d = {panel.d_model}, h = {panel.num_heads}"
    caption = [widths, setting.title, "markers grow with n", *captions, bars_caption(chart.curves, chart.y)]
    with canvas(*_ROOFLINE, title, "; ".join(filter(None, caption))) as figure:
        axes = figure.subplots()
        log_axes(axes, x=chart.x, y=chart.y)
        for guide in chart.guides:
            axes.plot(guide.x, guide.y, color=GUIDE, lw=2, alpha=0.7)
            if guide.top:
                axes.fill_between(guide.x, guide.y, guide.top, color=GUIDE, alpha=0.2, lw=0)
            for text, at, side in zip(guide.texts, (0.01, 0.99), ("left", "right"), strict=False):
                place = axes.get_yaxis_transform()
                axes.text(at, max(guide.top), text, transform=place, ha=side, va="bottom", fontsize=9)
        coloured = [curve for curve in chart.curves if curve.impl in named]
        for curve in chart.curves:
            if curve.impl not in named:
                axes.plot(curve.x, curve.y, ".-", color=GUIDE, lw=0.6, ms=3, alpha=0.5)
        sizes = [point.n for curve in coloured for point in curve.points]
        first_to_last = np.log([min(sizes), max(sizes)])
        guides = (list(zip(guide.x, guide.y, strict=True)) for guide in chart.guides)
        occupied = dense_places(axes, (*(curve.places for curve in coloured), *guides))
        ends = [places[-1] for places in occupied]
        for curve, end in zip(coloured, ends, strict=False):
            colour, marker, dash = setting.looks[curve.impl]
            axes.plot(curve.x, curve.y, color=colour, ls=(0, dash), lw=0.8, alpha=0.5)
            area = np.interp(np.log([point.n for point in curve.points]), first_to_last, _AREAS)
            inside = ["white" if point.hollow else colour for point in curve.points]
            axes.scatter(
                curve.x, curve.y, s=area, c=inside, edgecolors=colour, marker=marker, alpha=0.85, lw=1, zorder=3
            )
            error_bars(axes, curve.points, colour, alpha=0.35)
            write_label(axes, formatting.shortened(curve.impl), end, occupied, colour, _SIGNS)
    return figure


# More layers than this are not all named in one picture.
_MOST_NAMED = 12


def _named(panel: parts.Panel, at_n: Mapping[str, tuple[float, float]]) -> set[str]:
    """The layers to name: all, or those on the front and the fastest of each family. `at_n`: (time, error) of each."""
    families = panel.families()
    if len(families) <= _MOST_NAMED:
        return set(families)
    fastest = {families[impl]: impl for impl in sorted(at_n, key=lambda impl: -at_n[impl][0])}
    front = pareto_front(at_n.values())
    return {*fastest.values(), *(impl for impl, place in at_n.items() if place in front)}


# Errors up to this ratio are alike: they depend on the random input and on the order of sums.
_ALIKE = 1.5


def _accuracy_title(places: Mapping[str, tuple[float, float]], n: int) -> str:
    """Name the most accurate layer at n, or say how many are as accurate. `places`: (time, error) of each layer."""
    least = min(error for _, error in places.values())
    alike = [impl for impl, (_, error) in places.items() if error <= _ALIKE * least]
    if len(alike) == 1:
        return f"{formatting.printable(alike[0])} is the most accurate at n = {n}, with an error of {least:.1e}"
    every = "both" if len(alike) == 2 else f"all {len(alike)}"
    which = every if len(alike) == len(places) else f"the {len(alike)} most accurate"
    return f"At n = {n}, the errors of {which} layers are alike, about {least:.1e}"


# The most n with a curve over a layer's own axis.
_MOST_CURVES = 6


def over_own_axis(panel: parts.OwnAxisPanel) -> Figure:
    """Draw the time of one layer over an own axis, with a curve for each of up to six n.

    Layers without the axis are horizontal lines, at the largest n.
    """
    sizes = parts.evenly_spread({line.seq_len for line in panel.lines}, _MOST_CURVES)
    looks = looks_of(f"n = {n}" for n in sizes)
    ordered = sorted(panel.lines, key=panel.value)
    curves = [
        parts.curve_of(f"n = {n}", [line for line in ordered if line.seq_len == n], parts.TIME, panel.value)
        for n in sizes
    ]
    beside = {line.impl: line.time_s or 0.0 for line in panel.beside if line.seq_len == sizes[-1]}
    title = f"{formatting.printable(panel.impl)}: time per call over {panel.axis}"
    with canvas(*_ROOFLINE, title, panel.title) as figure:
        axes = figure.subplots()
        values = [*beside.values(), *(y for curve in curves for y in curve.y)]
        x = size_axis((x for curve in curves for x in curve.x), panel.axis)
        log_axes(axes, x=x, y=parts.TIME.axis(values, parts.TIME.label))
        for impl, time_s in beside.items():
            axes.axhline(time_s, color="0.6", linestyle="--", linewidth=1)
            says = f"{formatting.printable(impl)}, n = {sizes[-1]}"
            axes.annotate(says, (x.ticks[0][0], time_s), color="0.4", va="bottom", fontsize=9)
        draw_curves(axes, {curve.impl: curve for curve in curves}, looks, _ROOFLINE[1] - 1)
    return figure


def draw(directory: Path, lines: Lines, machine: Machine) -> None:
    """Write the plots of the lines for each setting to `directory`. Raises OSError if they cannot be written."""
    directory.mkdir(exist_ok=True)
    machine_roofs = roofs(machine)
    points = roof_points(lines, machine_roofs)
    for whole in parts.drawn_settings(parts.panel_settings(lines)):
        setting = parts.readable_setting(whole)
        figures = {
            "ladder": ladder(whole),
            "speedup": speedup(setting),
            "roofline": roofline(setting, machine_roofs, points),
            "accuracy": accuracy(setting),
            **{metric: curves(whole, cost, parts.MOST_SHOWN) for metric, cost in COSTS.items()},
        }
        for name, figure in figures.items():
            if figure is not None:
                style.save(figure, directory / "_".join(filter(None, (name, setting.name))))
    for axis, alike in grouped(parts.own_axis_panels(lines), lambda panel: panel.axis).items():
        # Their names have what differs between them: `time_over_window_d64_train`. A layer may be a path.
        texts = [[panel.impl.removeprefix("./"), *panel.title.replace(" = ", "").split(", ")] for panel in alike]
        shared = set(texts[0]).intersection(*texts)
        for panel, of_panel in zip(alike, texts, strict=True):
            name = "_".join(["time_over", axis, *(text for text in of_panel if text not in shared)])
            style.save(over_own_axis(panel), directory / parts.file_name(name))


def draw_overviews(directory: Path, overviews: Sequence[Overview]) -> None:
    """Write the overview of each setting to `directory`. Raises OSError if they cannot be written."""
    directory.mkdir(exist_ok=True)
    for overview in overviews:
        style.save(cost_overview(overview), directory / "_".join(filter(None, ("overview", overview.name))))
