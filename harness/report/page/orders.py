"""Table 1 and its like as the page sets them out: what the paper has, the layers under it, reasons as notes below."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.findings.complexity import Cell
from harness.findings.table1 import BeyondRow, Table1Row


@dataclass(frozen=True)
class Measured:
    """What became of one cell; `note` is the number of its reason."""

    text: str
    verdict: str
    note: int | None


@dataclass
class Kind:
    """One kind of layer: what the paper has of it, and each layer measured; `none` says why there is none."""

    name: str
    claimed: list[str]
    rows: list[tuple[str, list[Measured]]] = field(default_factory=list)
    none: str = ""


@dataclass
class Orders:
    """The kinds, and the notes by number, from 1 on."""

    kinds: list[Kind]
    notes: list[str]

    @property
    def measured(self) -> bool:
        """Whether anything was."""
        return any(cell.text for kind in self.kinds for _, cells in kind.rows for cell in cells)


def orders(rows: Sequence[Table1Row] | Sequence[BeyondRow]) -> Orders:
    """The rows by kind, each reason told once."""
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
