"""The answer in the terminal: a table and sentences for each setting, then claims, predictions and remarks."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.analysis.analyse import Analysis
from harness.formatting import printable
from harness.report.text import checks
from harness.report.text.costs import SCALING_EXPONENT, Answer, CostRow, answers
from harness.report.text.laws import held_out_sentences, refuted_sentences, verdict_count
from harness.report.text.quality import report_remarks, unsupported_sentences
from harness.results.table import CaseResult


def answer_document(lines: Sequence[CaseResult], findings: Analysis) -> RenderableType:
    """Everything to print about the lines and about the findings in them."""
    parts: list[RenderableType] = []
    for one in answers(lines, findings):
        parts += [_Costs(one), Text("\n".join(map(printable, one.sentences))), Text()]
    told = [
        verdict_count(findings.verdicts),
        *refuted_sentences(findings.verdicts),
        *held_out_sentences(findings.held_out),
    ]
    if findings.published is not None:
        claims = findings.published.claims
        parts += [
            Text(printable(line)) for line in (checks.claim_count(claims), *map(checks.claim_sentence, claims)) if line
        ]
    others, nowhere = unsupported_sentences(lines)
    parts += [Text(printable(sentence)) for sentence in (*told, *report_remarks(others), nowhere) if sentence]
    return Group(*parts)


# Names of built-in layers are never folded: before that, columns of scaling exponents are left out, the last one first.
# Longer names, of users' own layers, are folded at `_WHOLE_NAME` characters. If even that much room is missing without
# exponents, they are folded to the room that is left. Below `_LEAST_NAME` characters of room, names keep that width and
# numbers are folded too.
_WHOLE_NAME = 28
_LEAST_NAME = 12
_GAP = 2
_HEADINGS = ("time", "interval", "memory", "time\nslope", "memory\nslope")
_NEEDED = 3


class _Costs:
    """A cost table that fits the console's width, with an explanation of its scaling exponents."""

    def __init__(self, said: Answer) -> None:
        self.said = said

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = _table(self.said, options.max_width)
        yield table
        # Not as the table's caption: rich cuts the end of a line that is as wide as the table.
        shown = len(table.columns) - 1
        if shown > _NEEDED:
            yield Text(SCALING_EXPONENT)
        if shown < len(_HEADINGS):
            left_out = " and ".join(heading.replace("\n", " ") for heading in _HEADINGS[shown:])
            yield Text(f"no room here for the {left_out}: see report.md")


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
    longest = max(map(cell_len, names))
    headings = _that_fit(numbers, width - min(longest, _WHOLE_NAME))
    room = width - _widths(numbers, len(headings))
    whole = room >= _LEAST_NAME
    least = min(room if whole else _LEAST_NAME, longest)
    # When rich has to narrow columns, it respects `width` but not `min_width`.
    table.add_column("impl", overflow="fold", min_width=least, width=None if whole else least)
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold", no_wrap=whole)
    for name, row, cells in zip(names, said.rows, numbers, strict=True):
        table.add_row(escape(name), _time(row), *cells[1 : len(headings)])
    return table


def _that_fit(numbers: Sequence[Sequence[str]], room: int) -> Sequence[str]:
    """As many leading headings as `room` allows, and at least the first `_NEEDED`."""
    shown = len(_HEADINGS)
    while shown > _NEEDED and _widths(numbers, shown) > room:
        shown -= 1
    return _HEADINGS[:shown]


def _widths(numbers: Sequence[Sequence[str]], shown: int) -> int:
    """Width of the first `shown` number columns in terminal cells, including gaps."""
    columns = zip(*([heading.partition("\n")[0] for heading in _HEADINGS], *numbers), strict=True)
    return sum(max(map(cell_len, column)) + _GAP for column in list(columns)[:shown])


def _time(row: CostRow) -> str:
    return row.time if row.line.status == "ok" else f"[red]{row.time}"


def show_answer(lines: Sequence[CaseResult], findings: Analysis, console: Console) -> None:
    """Print the answer."""
    console.print(answer_document(lines, findings), highlight=False)
