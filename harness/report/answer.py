"""The answer in words and numbers, for the terminal: costs at the largest n, slopes, and who overtakes whom."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.report import units
from harness.report.laws import Law, fit_laws
from harness.report.panels import Panel, Setting, settings
from harness.report.remarks import remarks
from harness.scaling.crossover import crossover
from harness.summary import Line

_SLOPE = "slope: d log cost / d log n, between the two smallest n → between the two largest n"


def answer(lines: Sequence[Line]) -> RenderableType:
    """A table and sentences for each setting, and what else must be known of the lines."""
    parts: list[RenderableType] = []
    for setting in settings(lines):
        panel = _fullest(setting.panels)
        if any(line.time_s is not None for line in panel.lines):
            laws = {(law.impl, law.metric): law for law in fit_laws(panel.lines)}
            # Not the table's own caption: rich cuts the end of a line that is as wide as the table.
            parts += [_table(setting, panel, laws), Text(_SLOPE), Text("\n".join(_sentences(panel))), Text()]
    parts += [Text(sentence) for sentence in remarks(lines)]
    return Group(*parts)


def _fullest(panels: Sequence[Panel]) -> Panel:
    """The panel with the most cases timed; of several the widest, with the most heads."""
    return max(
        panels, key=lambda panel: (sum(line.time_s is not None for line in panel.lines), panel.d_model, panel.num_heads)
    )


def _largest(panel: Panel) -> int:
    return max(line.seq_len for line in panel.lines if line.time_s is not None)


def _table(setting: Setting, panel: Panel, laws: dict[tuple[str, str], Law]) -> Table:
    n = _largest(panel)
    table = Table(
        title=f"Cost of one call at n = {n}, d = {panel.d_model}, h = {panel.num_heads} ({setting.title})",
        box=SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
    )
    # On a narrow terminal numbers wrap; a name is only cut where it alone is too long.
    table.add_column("impl", overflow="fold", min_width=min(20, max(len(line.impl) for line in panel.lines)))
    for heading in ("time", "interval", "memory", "time\nslope", "memory\nslope"):
        table.add_column(heading, justify="right", overflow="fold")
    at_n = [line for line in panel.lines if line.seq_len == n]
    for line in sorted(at_n, key=lambda line: line.time_s if line.time_s is not None else float("inf")):
        table.add_row(
            escape(line.impl),
            units.seconds(line.time_s) if line.time_s is not None else _untimed(line),
            _interval(line),
            units.size(line.peak_bytes) if line.peak_bytes is not None else "",
            _slopes(laws.get((line.impl, "time"))),
            _slopes(laws.get((line.impl, "memory"))),
        )
    return table


def _untimed(line: Line) -> str:
    return "not timed" if line.status == "ok" else f"[red]{line.status}"


def _interval(line: Line) -> str:
    if line.time_s is None:
        return ""
    if line.time_hi_s is None or line.time_lo_s is None:
        return "one trial"
    down, up = 100 * (1 - line.time_lo_s / line.time_s), 100 * (line.time_hi_s / line.time_s - 1)
    return f"−{down:.0f} +{up:.0f} %" if max(down, up) >= 9.95 else f"−{down:.1f} +{up:.1f} %"


def _slopes(law: Law | None) -> str:
    return f"{law.slope_small_n:.2f} → {law.slope_large_n:.2f}" if law else ""


def _sentences(panel: Panel) -> list[str]:
    n = _largest(panel)
    ranked = sorted((line.time_s, line.impl) for line in panel.lines if line.seq_len == n and line.time_s is not None)
    said = []
    if len(ranked) > 1:
        (best, first), (second, runner_up) = ranked[:2]
        said.append(f"Fastest at n = {n}: {first}, {second / best:.2f} times as fast as {runner_up}.")
    return said + _overtaking(panel)


def _overtaking(panel: Panel) -> list[str]:
    """From which n on each attention costs more than the quickest RNN, the one to beat."""
    times = {impl: {line.seq_len: line.time_s for line in panel.of(impl) if line.time_s} for impl in panel.impls()}
    family = {line.impl: line.family for line in panel.lines}
    rnns = [impl for impl in times if family[impl] == "rnn" and times[impl]]
    attentions = [impl for impl in times if family[impl] == "attention" and times[impl]]
    if not rnns or not attentions:
        return []
    rnn = min(rnns, key=lambda impl: times[impl][max(times[impl])] / max(times[impl]))
    said = []
    for impl in attentions:
        common = times[impl].keys() & times[rnn].keys()
        if not common:
            continue
        n = crossover(times[impl], times[rnn])
        if n is None:
            said.append(f"{impl} costs no more time than {rnn} up to n = {max(common)}.")
        elif n <= min(common):
            said.append(f"{impl} costs more time than {rnn} at every n measured, from {min(common)} to {max(common)}.")
        else:
            said.append(f"{impl} costs more time than {rnn} from about n = {n:.0f} on.")
    return said


def show(lines: Sequence[Line], console: Console) -> None:
    """Print the answer."""
    console.print(answer(lines), highlight=False)
