"""The answer as the terminal shows it: a table and sentences for each setting, and what else must be known."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.findings.findings import Findings
from harness.report.escaped import printable
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
        parts += [_Costs(one), Text(SLOPE), Text("\n".join(map(printable, one.sentences))), Text()]
    told = [count(findings.verdicts), *refuted(findings.verdicts), *sentences(findings.held_out)]
    parts += [Text(printable(sentence)) for sentence in (*told, *remarks(lines)) if sentence]
    return Group(*parts)


# Names are folded to no less than this: on a terminal that has not even so much room, numbers are folded too.
_LEAST_NAME = 12
_GAP = 2
_HEADINGS = ("time", "interval", "memory", "time\nslope", "memory\nslope")


class _Costs:
    """The table, as wide as there is room: a long name is folded rather than numbers."""

    def __init__(self, said: Answer) -> None:
        self.said = said

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _table(self.said, options.max_width)


def _table(said: Answer, width: int) -> Table:
    table = Table(
        title=f"Cost of one call at {said.where} ({said.setting.title})",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
    )
    names = [printable(row.line.impl) for row in said.rows]
    numbers = [[row.time, row.interval, row.memory, row.time_slope, row.memory_slope] for row in said.rows]
    columns = zip(*([heading.partition("\n")[0] for heading in _HEADINGS], *numbers), strict=True)
    room = width - sum(max(map(cell_len, column)) + _GAP for column in columns)
    whole = room >= _LEAST_NAME
    table.add_column("impl", overflow="fold", min_width=min(room if whole else _LEAST_NAME, max(map(cell_len, names))))
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", overflow="fold", no_wrap=whole)
    for name, row, cells in zip(names, said.rows, numbers, strict=True):
        table.add_row(escape(name), _time(row), *cells[1:])
    return table


def _time(row: CostRow) -> str:
    return row.time if row.line.status == "ok" else f"[red]{row.time}"


def show(lines: Sequence[Line], findings: Findings, console: Console) -> None:
    """Print the answer."""
    console.print(answer(lines, findings), highlight=False)
