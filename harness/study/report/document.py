"""Documents of sections, sentences and tables: written once, then shown on a terminal, in Markdown and in HTML.

The terminal back end is rich: a `Table` prints itself. `markdown` is the second back end. The third is the page: the
macros of `html/templates/parts/macros.html` lay the same tables out. Each back end escapes all text.
"""

import html
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from harness.core.model.formatting import printable


@dataclass(frozen=True)
class Cell:
    """The text of a table's cell, with what belongs to that text.

    - `kind`: how to show the cell, if not as its column: `layer`, `formula`, or one of `_COLOURS`
    - `below`: text on a line of its own below; not in Markdown
    - `aside`, `why`, `details`: less important text, for the page alone; details are folded away
    - `verdict`, `note`: a verdict beside the text, and the number of a note below the table, for the page alone
    - `ends`: the numbers of an interval and the point within it, which the page draws as a bar
    """

    text: str = ""
    kind: str = ""
    below: str = ""
    aside: str = ""
    why: str = ""
    details: Sequence[str] = ()
    verdict: str = ""
    note: int | None = None
    ends: tuple[float | None, float, float | None] | None = None

    def __str__(self) -> str:
        return self.text


_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """The items with the same key, in the order of each group's first item."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


Row = Sequence[Cell | str]
Groups = dict[tuple[Cell, ...], list[Row]]


@dataclass(frozen=True)
class Table:
    """A table, which may have a title; `about` follows the title in brackets.

    `columns` maps each heading to the kinds of its cells, separated by spaces. `n` is a number, and `whole` a text that
    is not folded, such as an interval. A terminal leaves out `optional` columns that it has no room for, the last one
    first. What some columns mean is `explained`, by heading. The page knows more kinds: they are the classes of its
    style sheets. It numbers the `notes` that cells refer to.

    The rows are either `rows` or, for the page alone, `groups` of rows by their heading row.
    """

    columns: Mapping[str, str]
    rows: Sequence[Row] = ()
    groups: Groups = field(default_factory=dict)
    title: str = ""
    about: str = ""
    explained: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def without_empty(self, *headings: str) -> "Table":
        """The table without those of these columns that are empty in all rows."""
        texts = {heading: "".join(str(row[at]) for row in self.rows) for at, heading in enumerate(self.columns)}
        shown = [bool(text) or heading not in headings for heading, text in texts.items()]
        columns, rows = dict(compress(self.columns.items(), shown)), [[*compress(row, shown)] for row in self.rows]
        return replace(self, columns=columns, rows=rows)

    def note(self, shown: Iterable[str]) -> str:
        """What the `shown` columns mean, as one line."""
        return "; ".join(f"{heading}: {self.explained[heading]}" for heading in shown if heading in self.explained)

    @property
    def caption(self) -> str:
        """The title with what it is about."""
        return f"{self.title} ({self.about})" if self.about else self.title

    def is_a(self, kind: str, heading: str) -> bool:
        """Whether a column is of a kind."""
        return kind in self.columns[heading].split()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fit the table to the console: names are folded first, after optional columns of other names are left out."""
        shown = list(self.columns)
        unbounded = options.update_width(_UNBOUNDED)

        def fits(longest_name: int) -> bool:
            grid = self._grid(shown, True, longest_name)
            return Measurement.get(console, unbounded, grid).maximum <= options.max_width

        while self.is_a("optional", shown[-1]) and not fits(_WHOLE_NAME):
            shown.pop()
        # Not as the table's title: rich folds a title that is wider than its table.
        if self.title:
            yield Text(printable(self.caption), style="table.title")
        yield self._grid(shown, whole=fits(_LEAST_NAME))
        # Not as the table's caption: rich cuts the end of a line that is as wide as the table.
        if note := self.note(shown):
            yield Text(note)
        if left_out := list(self.columns)[len(shown) :]:
            yield Text(f"no room here for: {', '.join(left_out)}; see report.md".replace("\n", " "))

    def _grid(self, shown: Sequence[str], whole: bool, longest_name: int | None = None) -> RichTable:
        grid = RichTable(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for heading in shown:
            if self.is_a("n", heading):
                grid.add_column(heading, justify="right", overflow="fold", no_wrap=whole)
            elif self.is_a("whole", heading):
                grid.add_column(heading, overflow="fold", no_wrap=whole)
            else:
                grid.add_column(heading, overflow="fold", max_width=longest_name)
        for row in self.rows:
            grid.add_row(*map(_terminal_text, row[: len(shown)]))
        return grid


# Names of built-in layers are never folded: before that, optional columns are left out. Longer names, of users' own
# layers, are folded to the room that is left. Numbers are folded only if names have no more than `_LEAST_NAME`.
_WHOLE_NAME = 28
_LEAST_NAME = 12
_UNBOUNDED = 10_000
_COLOURS = {"bad": "red", "good": "green", "unmeasured": "magenta", "open": "yellow"}


def _terminal_text(cell: Cell | str) -> Text:
    cell = Cell(cell) if isinstance(cell, str) else cell
    text = Text.assemble((printable(cell.text), _COLOURS.get(cell.kind, "")))
    return text.append(f"\n{printable(cell.below)}") if cell.below else text


def show(parts: Iterable[Table | str], console: Console) -> None:
    """Print tables and sentences, each on lines of its own. Control characters are written out."""
    for part in parts:
        console.print(part if isinstance(part, Table) else Text(printable(part)))


@dataclass(frozen=True)
class Sentence:
    """A paragraph. Its `kind` is `lede` for the most important one, `note` for small print, and empty for others."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and what follows: other sections, tables, paragraphs, and lists of sentences.

    A section that holds nothing is not shown, and neither is an empty table, list or paragraph.
    """

    heading: str
    parts: "Iterable[Part]"


Part = Section | Table | Sentence | Sequence[str]


_MARKDOWN = {"": "{}", "lede": "**{}**", "note": "<sub>{}</sub>"}


def markdown(document: Section, level: int = 1) -> str:
    """Return the document as Markdown, each text escaped. Its own heading is of the given level."""
    return "\n\n".join(_blocks(document, level)) + "\n"


def _blocks(part: Part, level: int) -> Iterator[str]:
    if isinstance(part, Section):
        inside = [block for inner in part.parts for block in _blocks(inner, level + 1)]
        if inside and part.heading:
            yield f"{'#' * level} {escape_markdown(part.heading)}"
        yield from inside
    elif isinstance(part, Table):
        if part.rows and part.title:
            yield f"{escape_markdown(part.caption)}:"
        if part.rows:
            yield _markdown_table(part)
    elif isinstance(part, Sentence):
        if part.text:
            yield _MARKDOWN[part.kind].format(escape_markdown(part.text))
    elif part:
        yield "\n".join(f"- {escape_markdown(sentence)}" for sentence in part)


def _markdown_table(table: Table) -> str:
    headings, *rows = ([escape_markdown(str(cell)) for cell in row] for row in (list(table.columns), *table.rows))
    rule = ["---:" if table.is_a("n", heading) else ":---" for heading in table.columns]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *rows))


# Text from outside is escaped, so that terminals, Markdown and HTML within Markdown do not interpret it.
_INLINE = re.compile(r"([\\`*_\[\]|~$])")
_FIRST = re.compile(r"^([-+=]|\d+(?=[.)](?:\s|$)))")
# Forges turn `@name` and `#1` into links even if escaped. An empty comment after the sign prevents that.
_LINKS = re.compile(r"([@#])")


def escape_markdown(text: str) -> str:
    """Return `text` on one line, escaped for inline Markdown, including table cells."""
    flat = printable(" ".join(text.split()))
    plain = html.escape(_INLINE.sub(r"\\\1", flat), quote=False)
    # Only punctuation can be escaped: in `1.`, that is the point.
    begun = _FIRST.sub(lambda begin: begin[1] + "\\" if begin[1].isdigit() else "\\" + begin[1], plain)
    return _LINKS.sub(r"\1<!-- -->", begun)


# A number as a word of its own, but no version; or the address of an object.
_NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-f]+|-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)(?!\w|\.\d)")


def without_numbers(text: str) -> tuple[str, ...]:
    """The parts of the text between numbers: equal for texts that differ in numbers alone."""
    return tuple(_NUMBER.split(text)[::2])


def with_ranges(texts: Iterable[str]) -> str:
    """One text for texts that differ in numbers alone: `n = 64` and `n = 512` are `n = 64 – 512`."""
    return "".join(map(_range, zip(*map(_NUMBER.split, texts), strict=True)))


def _range(parts: Sequence[str]) -> str:
    if len(set(parts)) == 1:
        return parts[0]
    if any(part.startswith("0x") for part in parts):
        return "…"
    numbers = sorted(parts, key=lambda part: float(part.replace(",", "")))
    return f"{numbers[0]} – {numbers[-1]}"
