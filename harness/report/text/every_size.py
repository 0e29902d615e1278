"""Tables of costs at every n, and over own axes. The other tables show the largest n alone."""

from collections.abc import Callable, Mapping, Sequence

from harness import formatting
from harness.report.accuracy_chart import error_of
from harness.report.document import Table
from harness.report.figure_panels import Panel, own_axis_panels
from harness.results.columns import CaseResult


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
    is_tera = any((line.tflops_per_s or 0.0) >= 1 for line in lines.values())

    def ratio(line: CaseResult) -> str:
        whole, own = whole_s[line.seq_len], line.time_s
        return "suspect" if line.suspect else formatting.three(own / whole) if whole and own else ""

    def speed(line: CaseResult) -> str:
        rate = line.tflops_per_s
        return "" if rate is None else formatting.three(rate * (1 if is_tera else 1000))

    values: Mapping[str, Callable[[CaseResult], str]] = {
        "Time of one call": lambda line: formatting.seconds(line.time_s or 0.0),
        f"Time as a ratio to {baseline or 'the fastest'} at the same n": ratio,
        "TFLOP/s" if is_tera else "GFLOP/s": speed,
        "Share of the machine's peak": lambda line: "" if line.of_peak is None else formatting.share(line.of_peak),
        "Share of the peak under load, at sustained_s": lambda line: (
            "" if line.sustained_of_peak is None else formatting.share(line.sustained_of_peak)
        ),
        "Error, relative to float64 (RMS)": lambda line: "" if (e := error_of(line)) is None else f"{e:.1e}",
        "Error over that of the plain layer": lambda line: (
            "" if line.error_ratio is None else formatting.three(line.error_ratio)
        ),
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


def tables_over_own_axes(lines: Sequence[CaseResult]) -> list[Table]:
    """The time of one call over each own axis that varies, at every n."""
    tables = []
    for panel in own_axis_panels(lines):
        sizes = sorted({line.seq_len for line in panel.lines})
        times = {(panel.value(line), line.seq_len): formatting.seconds(line.time_s or 0.0) for line in panel.lines}
        values = sorted({value for value, _ in times})
        rows = [(f"{value:g}", *(times.get((value, n), "") for n in sizes)) for value in values]
        columns = {panel.axis: "n", **{f"n={n}": "n" for n in sizes}}
        about = f"{formatting.printable(panel.impl)}, {panel.title}"
        tables.append(Table(columns, rows, title=f"Time of one call over {panel.axis}", about=about))
    return tables


def _whole_s(at_n: Sequence[CaseResult], baseline: str) -> float | None:
    """The time that ratios at one n are relative to."""
    ranked = [line for line in at_n if not line.suspect and baseline in (line.impl, "")]
    return min((line.time_s for line in ranked if line.time_s), default=None)
