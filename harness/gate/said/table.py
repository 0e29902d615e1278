"""A gate's outcomes on the terminal: a table of what did not pass, and a line of counts."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.gate.outcome import IMPROVED, PASSED, REGRESSION, Outcome, counted, ordered
from harness.report.escaped import printable
from harness.stats.paired.verdicts import UNMEASURED

_COLOURS = {REGRESSION: "red", UNMEASURED: "magenta", IMPROVED: "green"}


def show(title: str, outcomes: Sequence[Outcome], remarks: Sequence[str], console: Console) -> None:
    """Print what did not pass, one row per impl, quantity and verdict, then `remarks` and the counts."""
    groups = alike([outcome for outcome in ordered(outcomes) if outcome.verdict != PASSED])
    if groups:
        console.print(_table(title, groups))
    for remark in remarks:
        console.print(escape(printable(remark)), highlight=False)
    console.print(escape(printable(f"{title}: {counted(outcomes)}.")), highlight=False)


def alike(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Group outcomes by verdict, impl and quantity, in the order of each group's first outcome."""
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.verdict, outcome.impl, outcome.quantity), []).append(outcome)
    return list(groups.values())


def _table(title: str, groups: Sequence[Sequence[Outcome]]) -> Table:
    table = Table(title=escape(printable(title)), box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("layer", overflow="fold")
    table.add_column("quantity")
    table.add_column("why", overflow="fold", ratio=1)
    for group in groups:
        # A group's last outcome has the largest sizes, where a difference shows most.
        shown = group[-1]
        colour = _COLOURS.get(shown.verdict, "yellow")
        others = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
        said = f"{shown.reason or f'{shown.was} → {shown.now}'}{others}"
        cells = (escape(printable(text)) for text in (shown.impl, shown.quantity, said))
        table.add_row(f"[{colour}]{shown.verdict}[/]", *cells)
    return table
