"""A comparison on the terminal: one row per pair, then sentences about the results."""

import math
from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.gate.compared import HELD, Compared, Comparison
from harness.gate.comparison_outcomes import pair_name, ratio
from harness.report import units
from harness.report.escaped import printable
from harness.stats.paired.verdicts import EQUIVALENT, FASTER, SLOWER, UNMEASURED

_COLOURS = {SLOWER: "red", UNMEASURED: "magenta", FASTER: "green", "more": "red", "less": "green"}


def show(title: str, comparison: Comparison, console: Console) -> None:
    """Print the table, and the sentences that go with it.

    The column `could see` holds the smallest slow-down that this measurement would have detected.
    """
    table = Table(title=escape(printable(title)), box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("head", overflow="fold")
    for heading in ("time, and between", "could see", "memory", "flops"):
        table.add_column(heading, justify="right" if heading == "could see" else "left")
    for one in comparison.compared:
        # The impl gets its own line: on one line, impl and sizes are too wide for a narrow terminal.
        table.add_row(escape(printable(pair_name(one.head))).replace(" ", "\n", 1), *_cells(one))
    console.print(table)
    for sentence in sentences(comparison):
        console.print(escape(printable(sentence)), highlight=False)


def _cells(one: Compared) -> tuple[str, ...]:
    seen = _least(one) if one.time is not None else ""
    amounts = [
        _coloured(amount.verdict, f"{amount.verdict} ×{amount.ratio:.3g}" if amount.ratio not in (None, 1) else None)
        for amount in (one.memory, one.flops)
    ]
    times = f"\n{ratio(one.time)}" if one.time is not None else ""
    return f"{_coloured(one.verdict)}{times}", seen, *amounts


def _coloured(verdict: str, text: str | None = None) -> str:
    colour = _COLOURS.get(verdict)
    said = escape(text or verdict)
    return f"[{colour}]{said}[/]" if colour else said


def _least(one: Compared) -> str:
    least = one.time.smallest_detectable if one.time is not None else math.inf
    return units.share(least) if math.isfinite(least) else "nothing"


def sentences(comparison: Comparison) -> Iterator[str]:
    """Sentences to print below the table."""
    for one in comparison.compared:
        said = one.time.reason if one.time is not None else one.reason
        if one.verdict != EQUIVALENT:
            yield f"{pair_name(one.head)}: {one.verdict}: {said}."
    for case, control in comparison.controls:
        if control.failure is not None:
            yield f"The A/A control of {pair_name(case)} could not be measured: {control.failure}."
        if control.differs:
            found = control.evidence
            yield (
                f"The A/A control failed: {pair_name(case)}, measured against itself, came out "
                f"×{found.ratio:.3f} ({found.lo:.3f} to {found.hi:.3f}). Nothing is concluded of time: "
                "measure again when the machine is quiet."
            )
    if comparison.control == HELD:
        number = sum(control.held for _, control in comparison.controls)
        yield f"The A/A control held: {number} case{'s' if number > 1 else ''}, measured against the base once more."
