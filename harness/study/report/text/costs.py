"""Costs as text: the answer for each setting, crossovers, and tables at the largest n, at every n and over own axes.

Each sentence is written here once, and the reports show it in several places.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from harness.core.model import formatting, own_axes
from harness.core.model.layer_options import options_of
from harness.core.model.sweep_axes import AXES, EQUAL, SETTINGS, Setting
from harness.core.results.columns import CaseResult
from harness.study.claims.claim_rules import exponent_value
from harness.study.laws.crossovers import Crossover, ratio_at, unlike_conditions
from harness.study.laws.fitted_laws import FittedLaw
from harness.study.laws.laws import exponent_of
from harness.study.laws.series import unlikeness
from harness.study.report.document import Cell, Row, Table
from harness.study.report.figure_panels import (
    Facet,
    Lines,
    Panel,
    PanelSetting,
    fullest_panel,
    of_panel,
    own_axis_panels,
)
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
    varying = [axis for axis in SETTINGS if axis != but and len({getattr(one, axis) for one in seen}) > 1]
    return lambda setting: ", ".join(AXES[axis].phrase(setting.as_dict()[axis]) for axis in varying)


def possible_crossings(found: Iterable[Crossover]) -> list[Crossover]:
    """The pairs that cross within the measured range, or may cross: each pair once, time first, then by n.

    In every other pair one layer costs more at every n, and the table of costs shows which.
    """
    pairs = {}
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


def apart_sentence(lines: Iterable[CaseResult]) -> str:
    """Say which layers have no crossovers because each states an own axis that the others lack; empty if none do."""
    axes: dict[str, str] = {}
    for line in (line for line in lines if line.options != line.series.options):
        own = own_axes.sizes_by_name(line.own_axes, line.options).keys() & options_of(line.options).keys()
        axes[line.impl] = ", ".join(sorted(own))
    if len(set(axes.values())) < 2:
        return ""
    names = formatting.listed([f"{impl} ({own})" for impl, own in axes.items()], "layer")
    return f"No crossovers between {names}: their own axes differ. To compare two, keep one at its default."


CROSSOVER_INTERVALS = (
    "In brackets: the joint 95 % interval of each n. Joint means that in at least 95 of 100 runs, no crossover is "
    "called wrongly."
)
SCALING_EXPONENT = "doubling n multiplies the time by 2 to this power, by the cost model at the largest n"
UNKNOWN_EXPONENT = "?: not determined; laws.csv has the 95 % interval and the reason"

# The most crossovers beside one table.
_MOST_PAIRS = 3

Laws = Mapping[tuple[str, Setting, str], FittedLaw]


def laws_by_series(laws: Iterable[FittedLaw]) -> Laws:
    """The cost models by layer, setting and metric."""
    return {(law.series.impl, law.series.setting, law.series.metric): law for law in laws}


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
    settings: Iterable[PanelSetting], crossovers: Mapping[Facet, list[Crossover]], laws: Laws, baseline: str = ""
) -> list[Answer]:
    """An answer for every setting that has a timed case. `crossovers` is a result of `by_facet`.

    Times are relative to those of the layer `baseline`, or to the fastest without one.
    """
    found = []
    for setting in settings:
        panel = fullest_panel(setting.panels)
        n = max((line.seq_len for line in panel.lines if line.time_s is not None), default=None)
        if n is not None:
            at_n = sorted((one for one in panel.lines if one.seq_len == n), key=_rank)
            table = _cost_table(setting, panel, at_n, laws, baseline)
            pairs = _overtaking(panel, of_panel(crossovers, setting, panel))
            by_size = tables_by_size(panel, [line.impl for line in at_n], setting.title, baseline)
            fastest = " ".join(filter(None, [_fastest(at_n), *unlike_conditions([at_n])]))
            found.append(Answer(setting.title, panel, table, fastest, tuple(pairs), tuple(by_size)))
    return found


def _rank(line: CaseResult) -> float:
    return math.inf if line.time_s is None or line.suspect else line.time_s


def near_fastest(lines: Iterable[CaseResult], n: int) -> list[str]:
    """The fastest layer at this n, and those whose times cannot be told from its time."""
    timed = sorted((line for line in lines if line.seq_len == n and line.best_known_time is not None), key=_rank)
    return [line.impl for line in (*timed[:1], *close_to(timed[0], timed))] if timed else []


def close_to(one: CaseResult, at_n: Lines) -> list[CaseResult]:
    """The other lines whose times cannot be told from that of this one: noise alone could explain the difference."""
    own = one.best_known_time
    return [
        line
        for line in at_n
        if line is not one
        and own is not None
        and (known := line.best_known_time) is not None
        and (gap := ratio_at(line.seq_len, known, own, unlikeness(line, one))).lo <= 0 <= gap.hi
    ]


def _cost_table(setting: PanelSetting, panel: Panel, at_n: Lines, laws: Laws, baseline: str) -> Table:
    unit, speed = _speeds(at_n)
    widths = {line.head_dim for line in at_n} - {None}
    head_dim = f"head_dim {widths.pop()}" if len(widths) == 1 else ""
    columns = {"layer": "layer", "time": "n", "95 % interval": "n soft bar", "ratio": "n", "lengths": "optional"}
    columns["peak\nmemory"] = "n optional"
    ranked = [line for line in at_n if line.time_s and not line.suspect]
    whole = next((line for line in ranked if baseline in (line.impl, "")), None)
    close = {line.impl for line in close_to(whole, at_n)} if whole else set()
    whole_s = whole.time_s if whole else None
    ratios = {line.impl: line.time_s / whole_s if line.time_s and whole_s else None for line in ranked}
    columns |= dict.fromkeys((unit, "exponent", "GB/s", "of peak"), "n optional")
    rows = [_cost_row(panel, line, laws, ratios.get(line.impl), line.impl in close, speed(line)) for line in at_n]
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


def _cost_row(panel: Panel, line: CaseResult, laws: Laws, ratio: float | None, is_close: bool, speed: str) -> Row:
    fitted = laws.get((line.impl, line.law_setting, "time"))
    exponent = exponent_of(fitted.law, "n", *line.size) if fitted else None
    ratio_text = "" if ratio is None else f"{'~' * is_close}{formatting.three(ratio)}"
    ended, kind = ("not timed", "") if line.status == "ok" else (line.status, "bad")
    return (
        line.impl,
        Cell(formatting.seconds(line.time_s) if line.time_s is not None else ended, kind),
        Cell(_interval(line), ends=(line.time_lo_s, line.time_s, line.time_hi_s) if line.time_s else None),
        Cell("suspect", "bad") if line.suspect else ratio_text,
        _lengths(line),
        _memory(line),
        speed,
        exponent_value(exponent, fitted.law.determined) if fitted and exponent else "",
        formatting.if_known(line.gb_per_s, formatting.three),
        formatting.if_known(line.of_peak, formatting.share),
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


def _fastest(at_n: Lines) -> str:
    """A sentence about the fastest of some lines, which come fastest first; empty for a single layer."""
    timed = [line for line in at_n if line.best_known_time is not None]
    if len(timed) < 2:
        return ""
    first, second = timed[:2]
    close = near_fastest(timed, first.seq_len)
    if len(close) > 1:
        names = formatting.listed(close, "layer")
        return f"Fastest at n={first.seq_len}: no clear winner. {names} are within measurement error (~)."
    longer = (second.time_s or 0.0) / (first.time_s or math.inf)
    prepared = first.prepare_s or 0.0
    before = f", after {formatting.seconds(prepared)} of prepare" if prepared > (first.time_s or 0.0) else ""
    return f"Fastest at n={first.seq_len}: {first.impl}{before}. {second.impl} takes {longer:.2f} times as long."


def _overtaking(panel: Panel, crossovers: Iterable[Crossover]) -> list[str]:
    """Sentences about the n from which each attention layer costs more time than the fastest RNN, the one to beat.

    If there are more than `_MOST_PAIRS`, the surest ones are kept: certain crossings by n, then pairs decided at every
    n, then undecided pairs.
    """
    family = panel.families()
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
        names = formatting.listed([c.slower for c in open_pairs])
        more.append(f"Undecided at every n: {rnn} against {names}.")
    return [*map(crossover_sentence, surest), *more]


def tables_by_size(panel: Panel, impls: Sequence[str], about: str, baseline: str = "") -> list[Table]:
    """The time, its ratio, the speed, the share of the peak and the errors of each layer at every n.

    Empty for a single n.

    Ratios are to the layer `baseline` at the same n, or to the fastest there without one. The rows have the order of
    `impls`. A table without any value is left out.
    """
    lines = {(line.impl, line.seq_len): line for line in panel.lines if line.time_s is not None}
    sizes = sorted({n for _, n in lines})
    if len(sizes) < 2:
        return []
    whole_s = {n: _whole_s([line for (_, at), line in lines.items() if at == n], baseline) for n in sizes}
    unit, speed = _speeds(lines.values())

    def ratio(line: CaseResult) -> str:
        whole, own = whole_s[line.seq_len], line.time_s
        return "suspect" if line.suspect else formatting.three(own / whole) if whole and own else ""

    values = {
        "Time of one call": lambda line: formatting.seconds(line.time_s or 0.0),
        f"Time as a ratio to {baseline or 'the fastest'} at the same n": ratio,
        unit: speed,
        "Share of the machine's peak": lambda line: formatting.if_known(line.of_peak, formatting.share),
        "Share of the peak under load, at sustained_s": lambda line: formatting.if_known(
            line.sustained_of_peak, formatting.share
        ),
        "Error, relative to float64 (RMS)": lambda line: formatting.if_known(error_of(line), "{:.1e}".format),
        "Error over that of the plain layer": lambda line: formatting.if_known(line.error_ratio, formatting.three),
    }
    columns = {"layer": "layer", **{f"n={n}": "n" for n in sizes}}
    tables = []
    for title, text in values.items():
        found = {at: text(line) for at, line in lines.items()}
        if any(found.values()):
            rows = [(impl, *(found.get((impl, n), "") for n in sizes)) for impl in impls]
            where = f"d={panel.d_model} h={panel.num_heads}, {about}"
            tables.append(Table(columns, rows, title=title, about=where))
    return tables


def tables_over_own_axes(lines: Lines, in_answers: Iterable[CaseResult] = ()) -> list[Table]:
    """The time of one call over each own axis that varies, at every n, and of the layers without the axis.

    The tables that have a case of `in_answers` come first.
    """
    # By their times, because a panel shows lines without heads as if measured at its h.
    case_of = attrgetter("impl", "options", "seq_len", "time_s")
    first, tables = {*map(case_of, in_answers)}, []
    for panel in sorted(own_axis_panels(lines), key=lambda one: first.isdisjoint(map(case_of, one.lines))):
        sizes = sorted({line.seq_len for line in panel.lines})
        named = [(f"{panel.value(line):g}", line) for line in sorted(panel.lines, key=panel.value)]
        named += [(formatting.printable(line.impl), line) for line in panel.beside]
        times = {(name, line.seq_len): formatting.seconds(line.time_s or 0.0) for name, line in named}
        rows = [(name, *(times.get((name, n), "") for n in sizes)) for name in dict(named)]
        columns = {panel.axis: "n", **{f"n={n}": "n" for n in sizes}}
        about = f"{formatting.printable(panel.impl)}, {panel.title}"
        tables.append(Table(columns, rows, title=f"Time of one call over {panel.axis}", about=about))
    return tables


def _whole_s(at_n: Lines, baseline: str) -> float | None:
    """The time that ratios at one n are relative to."""
    ranked = [line for line in at_n if not line.suspect and baseline in (line.impl, "")]
    return min((line.time_s for line in ranked if line.time_s), default=None)
