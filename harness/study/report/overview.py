"""The overview of a setting: time, peak memory and sequential depth against n for one (d, h), and what to see in each.

The static picture and the page draw the same overview. It is plain data, so that another process can draw it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from harness.core.model.formatting import printable
from harness.study.laws.crossovers import Crossover
from harness.study.laws.fitted_laws import FittedLaw, Laws
from harness.study.laws.laws import Range, exponent_of

from . import figure_panels as parts
from .chart import Chart, Curve, Looks, bars_caption, size_axis
from .document import grouped
from .text.cost_models import law_formula
from .text.costs import close_to
from .text.growth import depth_sentence, exponent_sentence, names_of, ratio_sentence

# The costs of the overview, from left to right, with their metrics.
COSTS = {"time": parts.TIME, "memory": parts.MEMORY, "depth": parts.DEPTH}


@dataclass(frozen=True)
class Crossing:
    """The crossover to mark in the chart of time: at `n`, with its interval, in the colour of `impl`.

    From `n` on, `impl` takes less time than another layer. `label` has the numbers in words.
    """

    impl: str
    n: float
    lo: float
    hi: float
    label: str


@dataclass(frozen=True)
class Overview:
    """The charts of one setting, its name in file names, the finding as title, and a caption about what is drawn.

    The charts are by metric. The looks are those of all layers of the run.
    """

    name: str
    title: str
    caption: str
    charts: Mapping[str, Chart]
    crossing: Crossing | None
    looks: Looks


def overviews(
    settings: Iterable[parts.PanelSetting], laws: Laws, crossovers: Mapping[parts.Facet, list[Crossover]]
) -> list[Overview]:
    """The overview of each setting that has a cost to draw. `crossovers` is a result of `by_facet`."""
    return [drawn for setting in settings if (drawn := overview(setting, laws, crossovers)) is not None]


def overview(
    setting: parts.PanelSetting, laws: Laws, crossovers: Mapping[parts.Facet, list[Crossover]]
) -> Overview | None:
    """The overview of the fullest panel; None if nothing is known to draw."""
    whole = parts.fullest_panel(setting.panels)
    impls, selection = overview_layers(whole)
    panel = replace(whole, lines=tuple(line for line in whole.lines if line.impl in impls))
    charts = {}
    for metric, cost in COSTS.items():
        chart = parts.cost_chart(panel, cost, cost.axis_of([panel], room=1.4))
        if chart is not None:
            charts[metric] = chart
    if not charts:
        return None
    crossing, fastest = _fastest(whole, parts.of_panel(crossovers, setting, whole))
    metric, first = next(iter(charts.items()))
    growth = ratio_sentence(first.curves, COSTS[metric])
    title = fastest or growth or "Cost per call"
    bars = (bars_caption(chart.curves, chart.y) for chart in charts.values())
    sizes = size_axis(n for chart in charts.values() for curve in chart.curves for n in curve.x)
    for metric, chart in charts.items():
        message = _message(panel, metric, chart.curves, laws)
        charts[metric] = replace(chart, x=sizes, message="" if message == title else message)
    captions = f"d = {panel.d_model}, h = {panel.num_heads}", setting.title, selection, *bars
    return Overview(
        name=setting.name,
        title=title.removesuffix("."),
        caption="; ".join(filter(None, captions)),
        charts=charts,
        crossing=crossing,
        looks=setting.looks,
    )


def overview_layers(panel: parts.Panel) -> tuple[list[str], str]:
    """The layers to show, and how they were selected if they are not all.

    Of more than `MANY` layers, these are the fastest of each family at the largest n with a time.
    """
    with_cost = [line for line in panel.lines if any(cost.value(line) is not None for cost in COSTS.values())]
    every = list(dict.fromkeys(line.impl for line in with_cost))
    if len(every) <= parts.MANY:
        return every, ""
    ranked = [line for line in with_cost if line.time_s and not line.suspect]
    if not ranked:
        return every[: parts.MANY], f"{parts.MANY} of {len(every)} layers"
    last = max(line.seq_len for line in ranked)
    at_last = sorted((line for line in ranked if line.seq_len == last), key=attrgetter("time_s", "impl"))
    families = grouped(at_last, attrgetter("family")).values()
    chosen = [fastest.impl for fastest, *_ in families][: parts.MANY]
    which = f"{len(chosen)} of {len(every)} layers: each the fastest of its family at n = {last}"
    return [impl for impl in every if impl in chosen], which


def _message(panel: parts.Panel, metric: str, curves: Sequence[Curve], laws: Laws) -> str:
    """What to see in the curves of a cost."""
    keys = [(line.impl, line.law_setting, metric) for line in panel.lines]
    fitted = {key[0]: laws[key] for key in keys if key in laws}
    shown = [curve.impl for curve in curves]
    if metric == "depth":
        exact = {impl: law_formula(law) for impl, law in fitted.items() if law.law.exact and not law.law.breaks}
        return depth_sentence(curves, exact)
    if metric == "memory":
        return exponent_sentence(*_measured_exponents(curves), shown)
    where = f"At n = {max(curve.points[-1].n for curve in curves)}"
    return exponent_sentence(_law_exponents(panel, curves, fitted), where, shown) or ratio_sentence(curves, parts.TIME)


def _law_exponents(panel: parts.Panel, curves: Sequence[Curve], fitted: Mapping[str, FittedLaw]) -> dict[str, Range]:
    """The scaling exponents of time at the largest n, by the cost models that are determined."""
    n = max(curve.points[-1].n for curve in curves)
    exponents = {}
    for curve in curves:
        law = fitted.get(curve.impl)
        if law and law.law.determined and curve.points[-1].n == n:
            exponent = exponent_of(law.law, "n", n, *panel.of(curve.impl)[0].size[1:])
            if exponent is not None:
                exponents[curve.impl] = exponent
    return exponents


def _measured_exponents(curves: Sequence[Curve]) -> tuple[dict[str, Range], str]:
    """The exact exponents of a cost between the two largest n, and these n in words; none if there is only one n."""
    sizes = sorted({point.n for curve in curves for point in curve.points})
    if len(sizes) < 2:
        return {}, ""
    first, last = sizes[-2:]
    exponents = {}
    for curve in curves:
        cost_at = dict(curve.places)
        if first in cost_at and last in cost_at:
            exponent = math.log(cost_at[last] / cost_at[first]) / math.log(last / first)
            exponents[curve.impl] = Range(exponent, exponent, exponent)
    return exponents, f"From n = {first} to {last}"


def _fastest(panel: parts.Panel, crossovers: Iterable[Crossover]) -> tuple[Crossing | None, str]:
    """A sentence about the fastest at the largest n, and the crossing from which on it is the fastest, if one is sure.

    Which layer is the fastest is decided as for the table below. The sentence is empty for a single layer.
    """
    last = max((line.seq_len for line in panel.lines if line.time_s is not None), default=0)
    at_last = [line for line in panel.lines if line.seq_len == last and line.best_known_time]
    at_last.sort(key=attrgetter("time_s"))
    impls = [line.impl for line in at_last]
    if len(impls) < 2:
        return None, ""
    winner, close = impls[0], close_to(at_last[0], at_last)
    if close:
        names = names_of([winner, *close], impls)
        return None, f"No clear winner at n = {last}: {names} are within measurement error."
    who = f"{printable(winner)} is the fastest"
    # Surely slower at the largest n, even if all n and layers are considered together.
    over = {
        c.slower: c
        for c in crossovers
        if c.metric == "time" and c.faster == winner and c.seq_len_hi is not None and c.measured_to == last
    }
    pairs = [over[impl] for impl in impls if impl in over]
    return _from_where(pairs, who) if len(pairs) == len(impls) - 1 else (None, f"{who} at n = {last}.")


def _from_where(pairs: Sequence[Crossover], what: str) -> tuple[Crossing | None, str]:
    """From which n on a layer is the fastest, which it surely is at the largest n. The pairs are all others over it."""
    hi = max(c.seq_len_hi or 0.0 for c in pairs)
    if not hi:
        return None, f"{what} at every n measured."
    latest = max(pairs, key=lambda c: c.seq_len or 0.0)
    n = latest.seq_len or 0.0
    if any(c.seq_len is None and (c.seq_len_hi or 0.0) > n for c in pairs):  # noise alone could have made a crossing
        return None, f"{what} at every n measured from {hi:.0f} on; below that, this is not sure."
    lo = latest.seq_len_lo or 0.0
    label = f"n = {n:.0f}" + (f" ({lo:.0f} – {hi:.0f})" if round(lo) != round(hi) else "")
    return Crossing(latest.faster, n, lo, hi, label), f"{what} above {label}."
