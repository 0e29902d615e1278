"""The answer as the terminal shows it: a table and sentences for each setting, and what else must be known."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.findings.findings import Findings
from harness.report.remarks import remarks
from harness.report.said.costs import SLOPE, Answer, CostRow, answers
from harness.report.said.held_out import sentences
from harness.report.said.verdicts import count, refuted
from harness.summary import Line


def answer(lines: Sequence[Line], findings: Findings) -> RenderableType:
    """All that is said of the lines and of what was found in them."""
    parts: list[RenderableType] = []
    for one in answers(lines, findings):
        # Not the table's own caption: rich cuts the end of a line that is as wide as the table.
        parts += [_table(one), Text(SLOPE), Text("\n".join(one.sentences)), Text()]
    told = [count(findings.verdicts), *refuted(findings.verdicts), *sentences(findings.held_out)]
    parts += [Text(sentence) for sentence in (*told, *remarks(lines)) if sentence]
    return Group(*parts)


def _table(said: Answer) -> Table:
    table = Table(
        title=f"Cost of one call at {said.where} ({said.setting.title})",
        box=SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
    )
    # On a narrow terminal numbers wrap; a name is only cut where it alone is too long.
    table.add_column("impl", overflow="fold", min_width=min(20, max(len(line.impl) for line in said.panel.lines)))
    for heading in ("time", "interval", "memory", "time\nslope", "memory\nslope"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in said.rows:
        table.add_row(escape(row.line.impl), _time(row), row.interval, row.memory, row.time_slope, row.memory_slope)
    return table


def _time(row: CostRow) -> str:
    return row.time if row.line.status == "ok" else f"[red]{row.time}"


def show(lines: Sequence[Line], findings: Findings, console: Console) -> None:
    """Print the answer."""
    console.print(answer(lines, findings), highlight=False)
