"""Table 1, and the table beyond it, as the page shows them.

Each kind of layer has the paper's orders, and the measured layers below. Notes below the table give the reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.findings.complexity import Cell
from harness.findings.table1 import BeyondRow, Table1Row


@dataclass(frozen=True)
class Measured:
    """The measured text and the verdict of one cell; `note` is the number of its reason, or None."""

    text: str
    verdict: str
    note: int | None


@dataclass
class Kind:
    """One kind of layer: the paper's orders and each measured layer. `none` says why no layer was measured."""

    name: str
    claimed: list[str]
    rows: list[tuple[str, list[Measured]]] = field(default_factory=list)
    none: str = ""


@dataclass
class Orders:
    """The kinds of layer, and the notes, numbered from 1."""

    kinds: list[Kind]
    notes: list[str]

    @property
    def measured(self) -> bool:
        """Whether any cell has a measured text."""
        return any(cell.text for kind in self.kinds for _, cells in kind.rows for cell in cells)


def orders(rows: Sequence[Table1Row] | Sequence[BeyondRow]) -> Orders:
    """Group the rows by kind of layer, with one note for each reason."""
    kinds: dict[str, Kind] = {}
    notes: list[str] = []
    for row in rows:
        cells = _cells(row)
        kind = kinds.setdefault(row.kind, Kind(row.kind, [cell.claimed for cell in cells]))
        if row.impl is None:
            kind.none = cells[0].reason
        else:
            kind.rows.append((row.impl, [_measured(cell, notes) for cell in cells]))
    return Orders(list(kinds.values()), notes)


def _cells(row: Table1Row | BeyondRow) -> list[Cell]:
    if isinstance(row, Table1Row):
        return [row.complexity, row.sequential, row.path]
    return [row.training, row.per_token]


def _measured(cell: Cell, notes: list[str]) -> Measured:
    if cell.reason and cell.reason not in notes:
        notes.append(cell.reason)
    return Measured(cell.measured, cell.verdict, notes.index(cell.reason) + 1 if cell.reason else None)
