"""The data of the page's charts: one record for each panel, the axes that select a panel, and the overview.

Measured values come as numbers, for the chart, beside the text that a reader sees.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from harness.core.model import formatting, own_axes
from harness.core.model.formatting import NumberText
from harness.core.model.layer_options import OPTION, options_of, value_text
from harness.core.model.sweep_axes import AXES
from harness.core.results.columns import CaseResult
from harness.core.stats.interval import NORMAL
from harness.study.laws.crossovers import Crossover
from harness.study.laws.predict import HeldOut
from harness.study.laws.roofline import WIDEST
from harness.study.laws.series import PROBE_NOISE
from harness.study.report import figure_panels as parts
from harness.study.report.chart import Chart, Guide, Looks, Point, looks_of_run, size_axis
from harness.study.report.document import grouped
from harness.study.report.figure_panels import SETTING_AXES, Panel, PanelSetting
from harness.study.report.overview import COSTS
from harness.study.report.point_charts import accuracy_chart, curves_of, roofline_chart
from harness.study.report.report_data import Contents
from harness.study.report.text import costs
from harness.study.report.text.cost_models import signed_share, worst_first

# Numbers and texts by name.
Data = dict[str, Any]


def crossover_chart(panel: Panel, crossovers: Iterable[Crossover]) -> Data | None:
    """`{"x", "rows": [{slower, faster, metric, n, lo, hi, text, sentence}]}`; None if nothing crosses or may cross.

    The `n` of an undecided crossover is None, and so is an unknown end of its interval.
    """
    rows = [
        {
            "slower": c.slower,
            "faster": c.faster,
            "metric": c.metric,
            "n": c.seq_len,
            "lo": c.seq_len_lo or None,
            "hi": c.seq_len_hi,
            "text": str(c),
            "sentence": costs.crossover_sentence(c),
        }
        for c in costs.possible_crossings(crossovers)
    ]
    return {"x": size_axis(line.seq_len for line in panel.lines), "rows": rows} if rows else None


# Matplotlib's marker -> plotly's name.
_SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "*": "star",
    "X": "x",
    "p": "pentagon",
    "h": "hexagon",
}
# Pixels for each point of a dash's length, for a line as thick as the page's.
_PIXELS = 2


def marker_symbols(looks: Looks) -> dict[str, dict[str, str]]:
    """`{impl: {colour, symbol, dash}}` for each layer, in the order of the plots.

    These are the colour, marker and dash of the static plots, in the terms of the page's charts.
    """
    symbols = {}
    for impl, look in looks.items():
        dash = ",".join(f"{length * _PIXELS:g}px" for length in look.dash) or "solid"
        symbols[impl] = {"colour": look.colour, "symbol": _SYMBOLS[look.marker], "dash": dash}
    return symbols


# Axes that select a panel. Each option of a layer is one more.
_SELECTORS = tuple(name for name in dict.fromkeys(("mode", "d_model", "num_heads", *SETTING_AXES)) if name != "options")

# The value of an option that a case does not state.
USUAL = "usual"


def selectors(lines: Iterable[CaseResult], panels: Sequence[Data]) -> list[Data]:
    """`[{name, label, values, frame}]` of each axis that selects a panel, with its values in ascending order.

    An option `window` is the axis `layer.window`, whose values are texts. The `frame` is that of a chart over the
    option; None for other axes, and if fewer than two are sizes.
    """
    axes_of = map(own_axes.axes_of_text, {line.own_axes for line in lines})
    declared = {(name, letter) for axes in axes_of for name, (letter, _) in axes.items()}
    axes = []
    for name in dict.fromkeys((*_SELECTORS, *sorted({name for panel in panels for name in panel["at"]}))):
        values = sorted({panel["at"][name] for panel in panels} - {None}, key=parts.in_order)
        frame = None
        if name in AXES:
            label = AXES[name].label
        else:
            short = name.removeprefix(OPTION)
            letters = [letter for option, letter in declared if option == short]
            label = f"{short} {letters[0]}" if len(letters) == 1 else short
            options = [options_of(f"{short}={value}")[short] for value in values]
            sizes = [*filter(own_axes.is_size, options)]
            if len(sizes) > 1:
                frame = size_axis(sizes, label)
        axes.append({"name": name, "label": label, "values": values, "frame": frame})
    return axes


def _but_options(setting: PanelSetting) -> dict[str, Any]:
    """The setting's values on other axes than the options."""
    return {axis: value for axis, value in setting.at.items() if axis != "options"}


def setting_at(setting: PanelSetting, stated: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The setting's value on each axis, with an axis for each option that a layer states: `{"layer.window": "64"}`.

    None is the value on the axis of an option that none of its layers states anywhere. `stated` are (layer, option).
    """
    impls = {impl for panel in setting.panels for impl in panel.impls()}
    usual = {name for impl, name in stated if impl in impls}
    texts = {f"{OPTION}{name}": USUAL if name in usual else None for _, name in stated}
    texts |= {f"{OPTION}{name}": str(value_text(value)) for name, value in options_of(setting.at["options"]).items()}
    return _but_options(setting) | texts


def chart_data(contents: Contents) -> Data:
    """`{"looks": {impl: look}, "widest": factor, "axes": [...], "panels": [...], "first": index}`.

    `axes` is the result of `selectors`. An interval that spans more than the factor `widest` is too wide to compare its
    value. Unlike conditions widen the interval of a ratio by `normal` standard errors, which `unlikeness` computes from
    the `noise` of the reference workload. Each panel has:

    - `at`: its value on every axis, by the name in `axes`; None where it belongs to every value
    - `sizes`, `words`: its width and heads, and the values of its other axes in words
    - `compared`: the times that speed-ups are made of
    - `time`, `memory`, `depth`, `roofline`, `accuracy`, `crossovers`: a chart, or None

    `first` is the fullest panel of the setting to open with. The overview of that setting is in `overview`, None if
    there is none, and the checked `predictions` by metric.
    """
    panels: list[Data] = []
    stated = {(line.impl, name) for line in contents.lines for name in options_of(line.options)}
    for setting in contents.settings:
        at = setting_at(setting, stated)
        roof = parts.roof_of_setting(contents.findings.roofs, setting)
        # Charts of settings that differ in options alone share their y axes.
        alike = [other for other in contents.settings if _but_options(other) == _but_options(setting)]
        shared = [panel for other in alike for panel in other.panels]
        axes = {metric: cost.axis_of(shared) for metric, cost in COSTS.items()}
        panels += [
            {
                "at": {**at, "d_model": panel.d_model, "num_heads": panel.num_heads},
                "sizes": f"d = {panel.d_model}, h = {panel.num_heads}",
                "words": setting.title.split(", "),
                "compared": parts.cost_chart(panel, parts.COMPARED, axes["time"]),
                **{metric: parts.cost_chart(panel, cost, axes[metric]) for metric, cost in COSTS.items()},
                "roofline": roofline_chart(roof, parts.of_panel(contents.points, setting, panel)),
                "accuracy": accuracy_chart(panel),
                "crossovers": crossover_chart(panel, parts.of_panel(contents.crossovers, setting, panel)),
            }
            for panel in setting.panels
        ]
    opening = contents.opening
    fullest = parts.fullest_panel(opening.panels) if opening else None
    opens = [panel is fullest for setting in contents.settings for panel in setting.panels]
    overviews = {overview.name: overview for overview in contents.overviews}
    overview = overviews.get(opening.name) if opening else None
    return {
        "looks": marker_symbols(looks_of_run(contents.lines)),
        "widest": WIDEST,
        "noise": PROBE_NOISE,
        "normal": NORMAL,
        "axes": selectors(contents.lines, panels),
        "panels": panels,
        "first": opens.index(True) if opens else 0,
        "overview": overview,
        "predictions": prediction_charts(contents.findings.held_out),
    }


# The most predictions of one cost in its chart: those with the largest errors.
_MOST_PREDICTIONS = 400


def prediction_charts(held_out: Sequence[HeldOut]) -> dict[str, Chart]:
    """By metric, predicted over measured costs, with a guide where they are equal."""
    charts = {}
    above_zero = (prediction for prediction in held_out if prediction.measured > 0 and prediction.predicted > 0)
    for metric, alike in grouped(above_zero, lambda one: one.metric).items():
        if metric in COSTS:
            worst = worst_first(alike)[:_MOST_PREDICTIONS]
            curves = curves_of((prediction.impl, _prediction(prediction, COSTS[metric].text)) for prediction in worst)
            axis = COSTS[metric].axis([value for curve in curves for value in (*curve.x, *curve.y)])
            x, y = replace(axis, title="measured"), replace(axis, title="predicted")
            guide = Guide(axis.range, axis.range)
            charts[metric] = Chart(x, y, curves, [guide], title=f"Predicted {costs.METRIC_NAMES[metric]}")
    return charts


def _prediction(prediction: HeldOut, text: NumberText) -> Point:
    x, y, lo, hi = prediction.measured, prediction.predicted, prediction.lo, prediction.hi
    says = (
        f"n = {prediction.n}, d = {prediction.d}, h = {prediction.h}: measured {text(x)}, predicted {text(y)} "
        f"({signed_share(prediction.error)})"
    )
    if not 0 < lo < hi < math.inf:
        return Point(x, y, text=says, n=prediction.n)
    says += f"; 95 % prediction interval {formatting.between(lo, hi, text)}"
    return Point(x, y, lo, hi, text=says, n=prediction.n)
