"""Costs as text: the answer for each setting, crossovers, and tables at the largest n, at every n and over own axes.

Each sentence is written here once, and the reports show it in several places.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from harness.core.model import formatting, own_axes
from harness.core.model.layer_options import options_of
from harness.core.model.sweep_axes import AXES, EQUAL, SETTINGS, Setting
from harness.core.results.columns import CaseResult
from harness.study.laws.crossovers import CostRatio, Crossover, ratio_at, unlike_conditions
from harness.study.laws.fitted_laws import Laws
from harness.study.laws.laws import exponent_of, exponent_value
from harness.study.laws.series import unlikeness
from harness.study.report import figure_panels as parts
from harness.study.report.document import Cell, Table, grouped
from harness.study.report.point_charts import error_of

METRIC_NAMES = {"time": "time", "memory": "peak memory", "flops": "FLOPs", "depth": "sequential depth"}
# A cost with its unit: `2.13 ms`, `6.00 MiB`, `4.19·10⁸ FLOPs`, `770`.
COST_TEXTS = {
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
    varying = [axis for axis in SETTINGS if axis != but and len({getattr(setting, axis) for setting in seen}) > 1]
    return lambda setting: ", ".join(AXES[axis].phrase(setting.as_dict()[axis]) for axis in varying)


def possible_crossings(crossovers: Iterable[Crossover]) -> list[Crossover]:
    """The pairs that cross within the measured range, or may cross: each pair once, time first, then by n.

    In every other pair one layer costs more at every n, and the table of costs shows which.
    """
    pairs = {}
    for c in crossovers:
        if c.seq_len or not c.decided:
            pair = (frozenset((c.slower, c.faster)), c.setting, c.metric, c.d_model, c.num_heads, c.batch_size)
            if pair not in pairs or c.seq_len:
                pairs[pair] = c
    return sorted(pairs.values(), key=lambda c: (c.metric != "time", not c.seq_len, c.seq_len or 0.0))


def crossover_sentence(c: Crossover) -> str:
    """The n from which one layer costs more than another, in words.

    `attention.naive is slower than rnn.torch from n = 541 (498 to 600) on.`
    """
    name = METRIC_NAMES[c.metric]
    more, no_more = f"needs more {name} than {c.faster}", f"needs no more {name} than {c.faster}"
    if c.metric == "time":
        more, no_more = f"is slower than {c.faster}", f"is not slower than {c.faster}"
    if c.seq_len is not None:
        return f"{c.slower} {more} {c}."
    if c.decided:
        return f"{c.slower} {no_more} at {c.sizes}."
    error = "the difference is within the measurement error"
    if c.seq_len_hi is not None:
        return f"{c.slower} {more} at every n measured from {c.seq_len_hi:.0f} on. Below that, {error}."
    if c.seq_len_lo:
        return f"{c.slower} {no_more} at n = {c.seq_len_lo:.0f}. Above that, {error}."
    return f"Whether {c.slower} {more} is undecided: at {c.sizes}, {error}."


def apart_sentence(lines: Iterable[CaseResult]) -> str:
    """Say which layers have no crossovers because each states an own axis that the others lack; empty if none do."""
    axes_of: dict[str, str] = {}
    for line in lines:
        if line.options != line.series.options:
            stated = own_axes.sizes_by_name(line.own_axes, line.options).keys() & options_of(line.options).keys()
            axes_of[line.impl] = ", ".join(sorted(stated))
    if len(set(axes_of.values())) < 2:
        return ""
    names = formatting.listed([f"{impl} ({axes})" for impl, axes in axes_of.items()], "layer")
    return f"No crossovers between {names}: their own axes differ. To compare two, keep one at its default."


CROSSOVER_INTERVALS = (
    "In brackets: the joint 95 % interval of each n. Joint means that in at least 95 of 100 runs, no crossover is "
    "called wrongly."
)
SCALING_EXPONENT = "doubling n multiplies the time by 2 to this power, by the cost model at the largest n"
UNKNOWN_EXPONENT = "?: not determined; laws.csv has the 95 % interval and the reason"

# The most crossovers beside one table.
_MOST_PAIRS = 3


@dataclass(frozen=True)
class Answer:
    """The answer for one setting: costs in its fullest panel at the largest n, fastest first, and sentences.

    `fastest` names the fastest layer, or those among which none is. `crossovers` tell which layer overtakes which.
    `by_size` are tables of the same panel at every n.
    """

    title: str
    panel: parts.Panel
    table: Table
    fastest: str
    crossovers: Sequence[str]
    by_size: Sequence[Table]

    @property
    def sentences(self) -> list[str]:
        """All sentences, the most important one first."""
        return [*filter(None, [self.fastest]), *self.crossovers]


def answers(
    settings: Iterable[parts.PanelSetting],
    crossovers: Mapping[parts.Facet, list[Crossover]],
    laws: Laws,
    baseline: str = "",
) -> list[Answer]:
    """An answer for every setting that has a timed case. `crossovers` is a result of `by_facet`.

    Times are relative to those of the layer `baseline`, or to the fastest without one.
    """
    answers = []
    for setting in settings:
        panel = parts.fullest_panel(setting.panels)
        n = max((line.seq_len for line in panel.lines if line.time_s is not None), default=None)
        if n is not None:
            at_n = sorted((line for line in panel.lines if line.seq_len == n), key=_rank)
            table = _cost_table(setting, panel, at_n, laws, baseline)
            pairs = _overtaking(panel, parts.of_panel(crossovers, setting, panel))
            by_size = tables_by_size(panel, [line.impl for line in at_n], setting.title, baseline)
            fastest = " ".join(filter(None, [_fastest(at_n), *unlike_conditions([at_n])]))
            answers.append(Answer(setting.title, panel, table, fastest, pairs, by_size))
    return answers


def _rank(line: CaseResult) -> float:
    return math.inf if line.time_s is None or line.suspect else line.time_s


def close_to(reference: CaseResult, at_n: parts.Lines) -> list[str]:
    """The other layers whose times cannot be told from the reference's: noise alone could explain the difference."""
    ratios = {line.impl: time_ratio(line, reference) for line in at_n if line is not reference}
    return [impl for impl, ratio in ratios.items() if ratio and not is_sure(ratio)]


def time_ratio(line: CaseResult | None, other: CaseResult) -> CostRatio | None:
    """The time of a line over that of another, as a logarithm with its interval; None if one is not known."""
    if line is None or line.best_known_time is None or other.best_known_time is None:
        return None
    return ratio_at(line.seq_len, line.best_known_time, other.best_known_time, unlikeness(line, other))


def is_sure(ratio: CostRatio) -> bool:
    """Whether the interval of the ratio does not contain 1."""
    return not ratio.lo <= 0 <= ratio.hi


def _cost_table(setting: parts.PanelSetting, panel: parts.Panel, at_n: parts.Lines, laws: Laws, baseline: str) -> Table:
    unit, speed = _speeds(at_n)
    widths = {line.head_dim for line in at_n} - {None}
    head_dim = f"head_dim {widths.pop()}" if len(widths) == 1 else ""
    columns = {"layer": "layer", "time": "n", "95 % interval": "n soft bar", "ratio": "n", "lengths": "optional"}
    columns |= dict.fromkeys(("peak\nmemory", unit, "exponent", "GB/s", "of peak"), "n optional")
    whole = _whole(at_n, baseline)
    close = close_to(whole, at_n) if whole else []
    rows = []
    for line in at_n:
        near = "~" if line.impl in close else ""
        fitted = laws.get((line.impl, line.law_setting, "time"))
        exponent = exponent_of(fitted.law, "n", *line.size) if fitted and line.time_s else None
        time = Cell("not timed") if line.status == "ok" else Cell(line.status, "bad")
        rows.append(
            (
                line.impl,
                Cell(formatting.seconds(line.time_s)) if line.time_s is not None else time,
                Cell(_interval(line), ends=(line.time_lo_s, line.time_s, line.time_hi_s) if line.time_s else None),
                Cell("suspect", "bad") if line.suspect else near + _ratio(line, whole),
                _lengths(line),
                _memory(line),
                speed(line),
                exponent_value(exponent, fitted.law.determined) if fitted and exponent else "",
                formatting.if_known(line.gb_per_s, formatting.three),
                formatting.if_known(line.of_peak, formatting.share),
            )
        )
    is_open = any("?" in row for row in rows)
    table = Table(
        columns,
        rows,
        title=f"Cost of one call at n={at_n[0].seq_len} d={panel.d_model} h={panel.num_heads}",
        about=", ".join(filter(None, [setting.title, head_dim])),
        explained={
            "ratio": f"to {baseline or 'the fastest'}",
            "exponent": f"{SCALING_EXPONENT}; {UNKNOWN_EXPONENT}" if is_open else SCALING_EXPONENT,
            "GB/s": "at least, by the least traffic",
        },
    )
    return table.without_empty("lengths", "exponent", "GB/s", "of peak")


def _speeds(lines: Iterable[CaseResult]) -> tuple[str, Callable[[CaseResult], str]]:
    """The unit of the lines' speeds, TFLOP/s if one of them reaches it, and a function that writes a speed in it."""
    is_tera = any((line.tflops_per_s or 0.0) >= 1 for line in lines)

    def text(line: CaseResult) -> str:
        rate = line.tflops_per_s
        return "" if rate is None else formatting.three(rate if is_tera else 1000 * rate)

    return "TFLOP/s" if is_tera else "GFLOP/s", text


def _whole(at_n: parts.Lines, baseline: str) -> CaseResult | None:
    """The line to whose time the ratios at one n are relative, of those that come fastest first."""
    ranked = (line for line in at_n if line.time_s and not line.suspect)
    return next((line for line in ranked if baseline in (line.impl, "")), None)


def _ratio(line: CaseResult, whole: CaseResult | None) -> str:
    return formatting.three(line.time_s / whole.time_s) if line.time_s and whole and whole.time_s else ""


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


def _fastest(at_n: parts.Lines) -> str:
    """A sentence about the fastest of some lines, which come fastest first; empty for a single layer."""
    timed = [line for line in at_n if line.best_known_time]
    if len(timed) < 2:
        return ""
    first, second = timed[:2]
    start = f"Fastest at n={first.seq_len}:"
    close = close_to(first, timed)
    if close:
        names = formatting.listed([first.impl, *close], "layer")
        return f"{start} no clear winner. {names} are within measurement error (~)."
    longer = (second.time_s or 0.0) / (first.time_s or math.inf)
    prepared = first.prepare_s or 0.0
    before = f", after {formatting.seconds(prepared)} of prepare" if prepared > (first.time_s or 0.0) else ""
    return f"{start} {first.impl}{before}. {second.impl} takes {longer:.2f} times as long."


def _overtaking(panel: parts.Panel, crossovers: Iterable[Crossover]) -> list[str]:
    """Sentences about the n from which each attention layer costs more time than the fastest RNN, the one to beat.

    If there are more than `_MOST_PAIRS`, the surest ones are kept: certain crossings by n, then pairs decided at every
    n, then undecided pairs.
    """
    family = panel.families()
    # In ascending n: the largest timed one stays.
    ranked = (line for line in panel.lines if not line.suspect)
    token_s = {line.impl: line.time_s / line.seq_len for line in ranked if line.time_s and line.family == "rnn"}
    rnn = min(token_s, key=token_s.__getitem__, default=None)
    pairs = [c for c in crossovers if c.metric == "time" and c.faster == rnn and family.get(c.slower) == "attention"]
    open_pairs = [c for c in pairs if not (c.decided or c.seq_len_hi is not None or c.seq_len_lo)]
    pairs = [c for c in pairs if c not in open_pairs]
    pairs.sort(key=lambda c: (not c.seq_len, not c.decided, c.seq_len or 0.0))
    sentences = [*map(crossover_sentence, pairs[:_MOST_PAIRS])]
    if pairs[_MOST_PAIRS:]:
        more = formatting.counted(len(pairs) - _MOST_PAIRS, "more crossover")
        sentences.append(f"And {more}: see crossovers.csv.")
    if open_pairs:
        names = formatting.listed([c.slower for c in open_pairs])
        sentences.append(f"Undecided at every n: {rnn} against {names}.")
    return sentences


def tables_by_size(panel: parts.Panel, impls: Sequence[str], about: str, baseline: str = "") -> list[Table]:
    """The time, its ratio, the speed, the share of the peak and the errors of each layer at every n.

    Empty for a single n.

    Ratios are to the layer `baseline` at the same n, or to the fastest there without one. The rows have the order of
    `impls`. A table without any value is left out.
    """
    timed = sorted((line for line in panel.lines if line.time_s is not None), key=_rank)
    at_n = grouped(timed, attrgetter("seq_len"))
    if len(at_n) < 2:
        return []
    unit, speed = _speeds(timed)

    def ratio(line: CaseResult) -> str:
        return "suspect" if line.suspect else _ratio(line, _whole(at_n[line.seq_len], baseline))

    known, share = formatting.if_known, formatting.share
    values = {
        "Time of one call": lambda line: formatting.seconds(line.time_s or 0.0),
        f"Time as a ratio to {baseline or 'the fastest'} at the same n": ratio,
        unit: speed,
        "Share of the machine's peak": lambda line: known(line.of_peak, share),
        "Share of the peak under load, at sustained_s": lambda line: known(line.sustained_of_peak, share),
        "Error, relative to float64 (RMS)": lambda line: known(error_of(line), "{:.1e}".format),
        "Error over that of the plain layer": lambda line: known(line.error_ratio, formatting.three),
    }
    tables = []
    for title, text in values.items():
        texts = {(line.impl, line.seq_len): text(line) for line in timed}
        if any(texts.values()):
            table = _size_table("layer", "layer", impls, texts)
            tables.append(replace(table, title=title, about=f"d={panel.d_model} h={panel.num_heads}, {about}"))
    return tables


def _size_table(heading: str, kind: str, names: Iterable[str], texts: Mapping[tuple[str, int], str]) -> Table:
    """A table with a row for each name and a column for each n, of the `texts` by name and n."""
    sizes = sorted({n for _, n in texts})
    rows = [(name, *(texts.get((name, n), "") for n in sizes)) for name in names]
    return Table({heading: kind, **{f"n={n}": "n" for n in sizes}}, rows)


def tables_over_own_axes(lines: parts.Lines, in_answers: Iterable[CaseResult] = ()) -> list[Table]:
    """The time of one call over each own axis that varies, at every n, and of the layers without the axis.

    The tables that have a case of `in_answers` come first.
    """
    # By their times, because a panel shows lines without heads as if measured at its h.
    case_of = attrgetter("impl", "options", "seq_len", "time_s")
    first, tables = {*map(case_of, in_answers)}, []
    for panel in sorted(parts.own_axis_panels(lines), key=lambda panel: first.isdisjoint(map(case_of, panel.lines))):
        sizes = {line.seq_len for line in panel.lines}
        named = [(f"{panel.value(line):g}", line) for line in sorted(panel.lines, key=panel.value)]
        named += [(formatting.printable(line.impl), line) for line in panel.beside]
        times = {(name, line.seq_len): line.time_s or 0.0 for name, line in named}
        texts = {(name, n): formatting.seconds(time_s) for (name, n), time_s in times.items() if n in sizes}
        about = f"{formatting.printable(panel.impl)}, {panel.title}"
        table = _size_table(panel.axis, "n", dict(named), texts)
        tables.append(replace(table, title=f"Time of one call over {panel.axis}", about=about))
    return tables
