"""Costs as text: the answer for each setting, crossovers, cost models, and how well these predict.

Each sentence is written here once, and the reports show it in several places.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness import formatting
from harness.analysis.claim_rules import exponent_text
from harness.analysis.crossovers import Crossover, ratio_at
from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.predict import HeldOut, scores
from harness.fit.laws import exponent_of
from harness.polynomial import sum_text
from harness.report.document import Cell, Groups, Row, Table, grouped
from harness.report.figure_panels import Facet, Panel, PanelSetting, fullest_panel, of_panel
from harness.report.text.every_size import tables_by_size
from harness.results.columns import CaseResult
from harness.sweep_axes import AXES, EQUAL, SETTINGS, Setting

METRIC_NAMES = {"time": "time", "memory": "peak memory", "flops": "FLOPs", "depth": "sequential depth"}
# A cost with its unit: `2.13 ms`, `6.00 MiB`, `4.19·10⁸ FLOPs`, `770`.
COST_TEXTS: dict[str, Callable[[float], str]] = {
    "time": formatting.seconds,
    "memory": formatting.size,
    "flops": lambda value: f"{formatting.count(value, 1e6)} FLOPs",
    "depth": lambda value: formatting.count(value, 1e6),
}


def setting_label(settings: Iterable[Setting], but: str = "") -> Callable[[Setting], str]:
    """A function that names one of the settings of a text by what distinguishes it from the others, `but` for an axis.

    The name of a single setting is empty.
    """
    seen = set(settings)
    varying = [axis for axis in SETTINGS if axis != but and len({getattr(one, axis) for one in seen}) > 1]
    return lambda setting: ", ".join(AXES[axis].phrase(getattr(setting, axis)) for axis in varying)


def possible_crossings(found: Iterable[Crossover]) -> list[Crossover]:
    """The pairs that cross within the measured range, or may cross: each pair once, time first, then by n.

    In every other pair one layer costs more at every n, and the table of costs shows which.
    """
    pairs: dict[tuple[Any, ...], Crossover] = {}
    for c in found:
        if _crosses(c) or not c.decided:
            names = frozenset((c.slower, c.faster))
            pair = (names, c.setting, c.metric, c.d_model, c.num_heads, c.batch_size)
            if pair not in pairs or _crosses(c):
                pairs[pair] = c
    return sorted(pairs.values(), key=lambda c: (c.metric != "time", not _crosses(c), c.seq_len or 0.0))


def _crosses(c: Crossover) -> bool:
    return c.seq_len is not None and c.seq_len > 0


def crossover_sentence(c: Crossover) -> str:
    """The n from which one layer costs more than another, in words.

    `attention.naive is slower than rnn.torch from n = 541 (498 to 600) on.`
    """
    is_time, name = c.metric == "time", METRIC_NAMES[c.metric]
    more = f"is slower than {c.faster}" if is_time else f"needs more {name} than {c.faster}"
    no_more = f"is not slower than {c.faster}" if is_time else f"needs no more {name} than {c.faster}"
    at_all = f"n = {c.measured_from} to {c.measured_to}" if c.measured_to > c.measured_from else f"n = {c.measured_to}"
    if c.seq_len is not None:
        return f"{c.slower} {more} {c}."
    if c.decided:
        return f"{c.slower} {no_more} at {at_all}."
    error = "the difference is within the measurement error"
    if c.seq_len_hi is not None:
        return f"{c.slower} {more} from n = {c.seq_len_hi:.0f} on. Below that, {error}."
    if c.seq_len_lo:
        return f"{c.slower} {no_more} at n = {c.seq_len_lo:.0f}. Above that, {error}."
    return f"Whether {c.slower} {more} is undecided: at {at_all}, {error}."


CROSSOVER_INTERVALS = (
    "In brackets: the joint 95 % interval of each n. Joint means that in at least 95 of 100 runs, no crossover is "
    "called wrongly."
)
SCALING_EXPONENT = "doubling n multiplies the time by 2 to this power, by the cost model at the largest n"

# The most layers named where none is the fastest.
_MOST_NAMED = 4
# The most crossovers beside one table.
_MOST_PAIRS = 3

_Laws = Mapping[tuple[str, Any, str], FittedLaw]


@dataclass(frozen=True)
class Answer:
    """The answer for one setting: costs in its fullest panel at the largest n, fastest first, and sentences.

    `fastest` names the fastest layer, or those among which none is. `crossovers` tell which layer overtakes which.
    `by_size` are tables of the same panel at every n.
    """

    title: str
    panel: Panel
    table: Table
    fastest: str
    crossovers: tuple[str, ...]
    by_size: tuple[Table, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, the most important one first."""
        return (*filter(None, [self.fastest]), *self.crossovers)


def answers(
    settings: Iterable[PanelSetting],
    crossovers: Mapping[Facet, list[Crossover]],
    laws: Iterable[FittedLaw],
    baseline: str = "",
) -> list[Answer]:
    """An answer for every setting that has a timed case. `crossovers` is a result of `by_facet`.

    Times are relative to those of the layer `baseline`, or to the fastest without one.
    """
    known = {(law.series.impl, law.series.setting, law.series.metric): law for law in laws}
    found = []
    for setting in settings:
        panel = fullest_panel(setting.panels)
        n = max((line.seq_len for line in panel.lines if line.time_s is not None), default=None)
        if n is not None:
            at_n = sorted((one for one in panel.lines if one.seq_len == n), key=_rank)
            table = _cost_table(setting, panel, at_n, known, baseline)
            pairs = _overtaking(panel, of_panel(crossovers, setting, panel))
            by_size = tables_by_size(panel, [line.impl for line in at_n], setting.title, baseline)
            found.append(Answer(setting.title, panel, table, _fastest(at_n), tuple(pairs), tuple(by_size)))
    return found


def _rank(line: CaseResult) -> float:
    return math.inf if line.time_s is None or line.suspect else line.time_s


def near_fastest(lines: Iterable[CaseResult], n: int) -> list[str]:
    """The fastest layer at this n, and those whose times cannot be told from its time."""
    at_n = sorted((line for line in lines if line.seq_len == n and line.best_known_time is not None), key=_rank)
    return [line.impl for line in (*at_n[:1], *close_to_fastest(at_n))]


def close_to_fastest(at_n: Sequence[CaseResult]) -> list[CaseResult]:
    """The lines whose times cannot be told from that of the first line, the fastest."""
    timed = [line for line in at_n if line.best_known_time is not None]
    return close_to(timed[0], timed) if timed else []


def close_to(one: CaseResult, at_n: Sequence[CaseResult]) -> list[CaseResult]:
    """The other lines whose times cannot be told from that of this one: noise alone could explain the difference."""
    own = one.best_known_time
    return [
        line
        for line in at_n
        if line is not one
        and own is not None
        and (known := line.best_known_time) is not None
        and (gap := ratio_at(line.seq_len, known, own)).lo <= 0 <= gap.hi
    ]


def _cost_table(setting: PanelSetting, panel: Panel, at_n: Sequence[CaseResult], laws: _Laws, baseline: str) -> Table:
    is_tera = any((line.tflops_per_s or 0) >= 1 for line in at_n)
    speed = "TFLOP/s" if is_tera else "GFLOP/s"
    widths = {line.head_dim for line in at_n} - {None}
    head_dim = f"head_dim {widths.pop()}" if len(widths) == 1 else ""
    columns = {"layer": "layer", "time": "n", "95 % interval": "n soft bar", "ratio": "n", "lengths": "optional"}
    columns["peak\nmemory"] = "n optional"
    ranked = [line for line in at_n if line.time_s and not line.suspect]
    whole = next((line for line in ranked if baseline in (line.impl, "")), None)
    close = {line.impl for line in close_to(whole, at_n)} if whole else set()
    whole_s = whole.time_s if whole else None
    ratios = {line.impl: line.time_s / whole_s if line.time_s and whole_s else None for line in ranked}
    columns |= dict.fromkeys((speed, "exponent", "GB/s", "of peak"), "n optional")
    rows = [_cost_row(panel, line, laws, ratios.get(line.impl), line.impl in close, is_tera) for line in at_n]
    table = Table(
        columns,
        rows,
        title=f"Cost of one call at n={at_n[0].seq_len} d={panel.d_model} h={panel.num_heads}",
        about=", ".join(filter(None, [setting.title, head_dim])),
        explained={
            "ratio": f"to {baseline or 'the fastest'}",
            "exponent": SCALING_EXPONENT,
            "GB/s": "at least, by the least traffic",
        },
    )
    return table.without_empty("lengths", "exponent", "GB/s", "of peak")


def _cost_row(panel: Panel, line: CaseResult, laws: _Laws, ratio: float | None, is_close: bool, is_tera: bool) -> Row:
    fitted = laws.get((line.impl, line.series, "time"))
    exponent = exponent_of(fitted.law, "n", *line.size) if fitted and fitted.law.determined else None
    speed = None if line.tflops_per_s is None else line.tflops_per_s * (1 if is_tera else 1000)
    ended, kind = ("not timed", "") if line.status == "ok" else (line.status, "bad")
    return (
        line.impl,
        Cell(formatting.seconds(line.time_s) if line.time_s is not None else ended, kind),
        Cell(_interval(line), ends=(line.time_lo_s, line.time_s, line.time_hi_s) if line.time_s else None),
        Cell("suspect", "bad")
        if line.suspect
        else ""
        if ratio is None
        else f"{'~' * is_close}{formatting.three(ratio)}",
        _lengths(line),
        _memory(line),
        "" if speed is None else formatting.three(speed),
        "" if not exponent else f"{exponent.value:.2f}",
        "" if line.gb_per_s is None else formatting.three(line.gb_per_s),
        "" if line.of_peak is None else formatting.share(line.of_peak),
    )


def _lengths(line: CaseResult) -> str:
    """How unequal lengths reach the layer, `packed` or the share of padding; empty for sequences of one length."""
    if line.lengths_as is None or line.lengths == EQUAL:
        return ""
    return f"{formatting.share(line.padding_share)} padding" if line.padding_share else line.lengths_as


def _interval(line: CaseResult) -> str:
    """The interval of a time; `one trial` without an interval, empty without a time."""
    if line.time_s is None:
        return ""
    if line.time_hi_s is None or line.time_lo_s is None:
        return "one trial"
    return formatting.seconds_range(line.time_lo_s, line.time_hi_s)


def _memory(line: CaseResult) -> str:
    """The peak memory. If torch traced only a part of it: that part, and the resident memory that the kernel saw."""
    if line.peak_bytes is not None:
        return formatting.size(line.peak_bytes)
    if line.peak_traced_bytes is None:
        return ""
    resident = f", {formatting.size(line.peak_resident_bytes)} resident" if line.peak_resident_bytes is not None else ""
    return f"≥ {formatting.size(line.peak_traced_bytes)} traced{resident}"


def _fastest(at_n: Sequence[CaseResult]) -> str:
    """A sentence about the fastest of some lines, which come fastest first; empty for a single layer."""
    timed = [line for line in at_n if line.best_known_time is not None]
    if len(timed) < 2:
        return ""
    first, second = timed[:2]
    close = [line.impl for line in close_to_fastest(at_n)]
    if close:
        names = [first.impl, *close][:_MOST_NAMED]
        more = len(close) + 1 - len(names)
        last = formatting.counted(more, "more layer") if more else names.pop()
        text = f"{', '.join(names)} and {last} are within measurement error (~)."
        return f"Fastest at n={first.seq_len}: no clear winner. {text}"
    longer = (second.time_s or 0.0) / (first.time_s or math.inf)
    return f"Fastest at n={first.seq_len}: {first.impl}. {second.impl} takes {longer:.2f} times as long."


def _overtaking(panel: Panel, crossovers: Iterable[Crossover]) -> list[str]:
    """Sentences about the n from which each attention layer costs more time than the fastest RNN, the one to beat.

    If there are more than `_MOST_PAIRS`, the surest ones are kept: certain crossings by n, then pairs decided at every
    n, then undecided pairs.
    """
    family = {line.impl: line.family for line in panel.lines}
    # In ascending n: the largest timed one stays.
    ranked = (line for line in panel.lines if not line.suspect)
    a_token = {line.impl: line.time_s / line.seq_len for line in ranked if line.time_s}
    rnn = min((impl for impl in a_token if family[impl] == "rnn"), key=lambda impl: a_token[impl], default=None)
    pairs = [c for c in crossovers if c.metric == "time" and c.faster == rnn and family.get(c.slower) == "attention"]
    open_pairs = [c for c in pairs if not c.decided and c.seq_len_hi is None and not c.seq_len_lo]
    others = [c for c in pairs if c not in open_pairs]
    surest = sorted(others, key=lambda c: (not _crosses(c), not c.decided, c.seq_len or 0.0))[:_MOST_PAIRS]
    left = len(others) - len(surest)
    more = [f"And {formatting.counted(left, 'more crossover')}: see crossovers.csv."] if left else []
    if open_pairs:
        names = " and ".join(filter(None, (", ".join(c.slower for c in open_pairs[:-1]), open_pairs[-1].slower)))
        more.append(f"Undecided at every n: {rnn} against {names}.")
    return [*map(crossover_sentence, surest), *more]


def law_formula(fitted: FittedLaw) -> str:
    """The cost model of a series, the fastest growing term first.

    `37.1 ps·n²·d + 12.4 ps·n·d² + 21.0 µs` for time, `4n²·d + 8n·d²` for FLOPs. A known cost comes last.
    """
    text = partial(_coefficient, fitted.series.metric)
    terms = ((c.value, _written(text(abs(c.value)), str(c.term))) for c in reversed(fitted.law.coefficients))
    return sum_text(terms) + fitted.law.known_text


def coefficient_texts(fitted: FittedLaw) -> list[str]:
    """Each term with its coefficient and the interval of that, the fastest growing first; none if they are exact."""
    text = partial(_coefficient, fitted.series.metric)
    known = () if fitted.law.exact else reversed(fitted.law.coefficients)
    return [f"{c.term}: {text(c.value)} ({formatting.between(c.lo, c.hi, text)})" for c in known]


def break_text(fitted: FittedLaw) -> str:
    """The n or the blocks from which the law holds, in words; empty if no other law holds below."""
    if not fitted.law.breaks:
        return ""
    last = fitted.law.breaks[-1]
    return f"from n = {last.n:.0f} on" if last.bytes is None else f"from blocks of {formatting.size(last.bytes)} on"


def _coefficient(metric: str, value: float) -> str:
    if metric == "time":
        return formatting.seconds(value)
    if metric == "memory":
        return f"{value:.3g} B" if abs(value) < 1000 else formatting.size(value)
    return formatting.power_of_ten(value)


def _written(coefficient: str, term: str) -> str:
    if term == "1":
        return coefficient
    if coefficient == "1":
        return term
    return f"{coefficient}{term}" if coefficient.isdigit() else f"{coefficient}·{term}"


def laws_table(laws: Sequence[FittedLaw]) -> Table:
    """The cost models as a table with a group for each metric."""
    where = setting_label(fitted.series.setting for fitted in laws)
    of_metric = grouped(laws, lambda fitted: METRIC_NAMES[fitted.series.metric])
    exponents = {"exponent of n": "n", "exponent of d": "n", "cross-validation error": "n"}
    vague = grouped((fitted for fitted in laws if not fitted.law.determined), lambda fitted: fitted.law.reason)
    number = {reason: at for at, reason in enumerate(vague, 1)}
    notes = [f"undetermined: {reason}: {'; '.join(_names_by_metric(alike))}" for reason, alike in vague.items()]
    groups: Groups = {
        (Cell(name),): [_law_row(fitted, where, number.get(fitted.law.reason)) for fitted in alike]
        for name, alike in of_metric.items()
    }
    return Table({"layer": "layer", "cost model": "formula", **exponents}, groups=groups, notes=notes)


def _names_by_metric(laws: Iterable[FittedLaw]) -> Iterator[str]:
    """The layers of the cost models, each once: `time of rnn.torch, attention.fused`."""
    for metric, alike in grouped(laws, lambda fitted: METRIC_NAMES[fitted.series.metric]).items():
        yield f"{metric} of {', '.join(dict.fromkeys(fitted.series.impl for fitted in alike))}"


def _law_row(fitted: FittedLaw, where: Callable[[Setting], str], note: int | None) -> Row:
    law, error = fitted.law, fitted.law.cv_error
    kinds = ("exact" if law.exact else "", break_text(fitted), "" if law.determined else "undetermined")
    formula = Cell(
        law_formula(fitted),
        aside=" ".join(filter(None, kinds)),
        note=None if law.determined else note,
        details=coefficient_texts(fitted),
    )
    return (
        Cell(fitted.series.impl, aside=where(fitted.series.setting)),
        formula,
        exponent_text(fitted.exponent_n),
        exponent_text(fitted.exponent_d),
        "" if law.exact or error is None or not math.isfinite(error) else formatting.share(error),
    )


def held_out_sentences(held_out: Sequence[HeldOut]) -> list[str]:
    """For each metric, how well cost models predicted cases that they were not fitted to.

    It gives the size of the errors, how many cases lie in the prediction interval, and how wide the intervals are.
    """
    text = []
    for score in scores(held_out):
        of_metric = [prediction for prediction in held_out if prediction.metric == score.metric]
        worst = max(of_metric, key=lambda prediction: abs(prediction.error))
        fitted = {prediction.fitted_to for prediction in of_metric}
        predicted = {prediction.n for prediction in of_metric}
        to = f"n ≤ {fitted.pop()}" if len(fitted) == 1 else "a quarter of the largest n and below"
        at = f"at n = {predicted.pop()}" if len(predicted) == 1 else "at the largest n"
        text.append(
            f"Prediction check: cost models fitted to {to} predict the {METRIC_NAMES[score.metric]} {at} with a median "
            f"error of {formatting.share(score.error)} (worst: {formatting.share(abs(worst.error))}, {worst.impl} "
            f"n={worst.n} d={worst.d} h={worst.h}). The 95 % prediction intervals contain {score.covered} of "
            f"{score.predictions} values; their median width is a factor of {score.width:.3g}."
        )
    return text


# The most predictions of one metric on the page.
_MOST_HELD_OUT = 50


def held_out_table(held_out: Sequence[HeldOut]) -> Table:
    """The predictions beside the measurements, with a group for each metric: those with the largest errors."""
    where = setting_label(one.setting for one in held_out)
    groups: dict[tuple[Cell, ...], list[Row]] = {}
    for metric, predictions in grouped(held_out, lambda one: one.metric).items():
        least = sorted((abs(one.error) for one in predictions), reverse=True)[:_MOST_HELD_OUT][-1]
        rows = [_held_out_row(one, where(one.setting)) for one in predictions if abs(one.error) >= least]
        groups[(Cell(METRIC_NAMES[metric]),)] = rows
    numbers = {"measured": "n", "predicted": "n", "error": "n", "within": "verdict", "between": "n soft"}
    return Table({"layer": "layer", **numbers, "at": "at", "fitted to n ≤": "n"}, groups=groups)


def _held_out_row(one: HeldOut, where: str) -> Row:
    text = COST_TEXTS[one.metric]
    between = formatting.between(one.lo, one.hi, text) if one.lo < one.hi else "exactly"
    costs = text(one.measured), text(one.predicted), signed_share(one.error)
    at = ", ".join(filter(None, (f"n = {one.n}, d = {one.d}, h = {one.h}", where)))
    return (one.impl, *costs, "yes" if one.covered else "no", between, at, str(one.fitted_to))


def signed_share(error: float) -> str:
    """A relative error with its sign: `+12 %`, `−3.1 %`."""
    return ("−" if error < 0 else "+") + formatting.share(abs(error))
