"""Claims as text: theory's verdicts, and Table 1."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from harness.core.model import formatting
from harness.study.claims.claim_rules import NOT_MEASURED, REFUTED, UNDETERMINED
from harness.study.claims.claims_table import VERDICTS, ClaimVerdict
from harness.study.claims.table1 import BeyondRow, Table1Row
from harness.study.claims.table1 import Cell as Order
from harness.study.report.document import Cell, Groups, Row, Table, grouped

from .costs import setting_label

QUANTITIES = {
    "work": "FLOPs, forward",
    "work_train": "FLOPs, training",
    "work_backward": "FLOPs, backward",
    "work_decode": "FLOPs, one token",
    "memory": "memory",
    "depth": "sequential depth",
    "path": "maximum path length",
    "time": "time",
}


def verdict_count(found: Sequence[str], whose: str = "") -> str:
    """Count the verdicts: `Of 30 claims 27 confirmed, 1 refuted, 2 undetermined.`"""
    text = [f"{found.count(kind)} {kind}" for kind in (*VERDICTS, NOT_MEASURED) if kind in found]
    return f"Of {formatting.counted(len(found), 'claim')}{whose} {', '.join(text)}." if text else ""


def refuted_sentences(verdicts: Sequence[ClaimVerdict]) -> list[str]:
    """One sentence for each refuted claim, which names what distinguishes its setting from the others'."""
    where = setting_label((one.setting for one in verdicts), but="mode")
    found = []
    for one in (one for one in verdicts if one.verdict == REFUTED):
        # The mode is in brackets: `FLOPs, forward` would give it twice.
        quantity = claim_name(one.quantity).partition(",")[0]
        of_what = f"{one.impl} ({', '.join(filter(None, (one.setting.mode, where(one.setting))))})"
        reason = f"measured {one.measured}: {one.reason.rstrip('.')}."
        found.append(f"Refuted: {of_what} claims {quantity} of {one.claimed}, {reason}")
    return found


def claim_name(quantity: str) -> str:
    """The quantity in words; an unknown one by its own name."""
    return QUANTITIES.get(quantity, quantity)


def claims_table(verdicts: Sequence[ClaimVerdict]) -> Table:
    """The verdicts as a table with a group for each layer and setting."""
    where = setting_label(one.setting for one in verdicts)
    columns = {"layer, quantity": "claim", "verdict": "verdict", "claimed": "formula", "measured": "formula"}
    vague = grouped((one for one in verdicts if one.verdict == UNDETERMINED), attrgetter("reason"))
    shared = {reason: alike for reason, alike in vague.items() if len(alike) > 1}
    number = {reason: at for at, reason in enumerate(shared, 1)}
    notes = [f"{reason}: {'; '.join(_layers_by_claim(alike))}" for reason, alike in shared.items()]
    groups: Groups = {
        (Cell(impl, "layer", aside=at),): [_claim_row(one, number.get(one.reason)) for one in members]
        for (impl, at), members in grouped(verdicts, lambda one: (one.impl, where(one.setting))).items()
    }
    return Table({**columns, "why": "why"}, groups=groups, notes=notes)


def _layers_by_claim(verdicts: Iterable[ClaimVerdict]) -> Iterator[str]:
    """The layers of the verdicts, each once: `time of rnn.torch, attention.fused`."""
    for quantity, alike in grouped(verdicts, attrgetter("quantity")).items():
        yield f"{claim_name(quantity)} of {', '.join(dict.fromkeys(one.impl for one in alike))}"


def _claim_row(one: ClaimVerdict, note: int | None) -> Row:
    """A row of the table of claims. A reason that several undetermined claims share is a note below the table."""
    is_shared = one.verdict == UNDETERMINED and note is not None
    why = Cell(f"note {note}" if is_shared else one.reason)
    return claim_name(one.quantity), one.verdict, one.claimed, one.measured, why


def claims_overview(verdicts: Sequence[ClaimVerdict]) -> Table:
    """The verdicts with a row for each layer and mode and a column for each quantity.

    Several settings can share a cell: it shows a refutation in any of them.
    """
    quantities = dict.fromkeys(one.quantity for one in verdicts)
    rows = []
    for (impl, mode), members in grouped(verdicts, lambda one: (one.impl, one.setting.mode)).items():
        found: dict[str, str] = {}
        for one in sorted(members, key=lambda one: one.verdict != REFUTED):
            found.setdefault(one.quantity, one.verdict)
        rows.append((impl, mode, *(found.get(quantity, "") for quantity in quantities)))
    return Table({"layer": "layer", "mode": "", **dict.fromkeys(map(claim_name, quantities), "verdict")}, rows)


_ORDERS = {
    **{"complexity": "complexity per layer", "sequential": "sequential operations", "path": "maximum path length"},
    **{"training": "training a layer", "per_token": "one token at inference"},
}


def order_table(rows: Sequence[Table1Row] | Sequence[BeyondRow]) -> Table:
    """Table 1, or the table beyond it, with a group for each kind of layer: the paper's orders above the measured ones.

    Each reason is one of the table's numbered `notes`.
    """
    notes: dict[str, int | None] = {"": None}
    groups: dict[tuple[Cell, ...], list[Row]] = {}
    orders: list[str] = []
    for row in rows:
        cells = {_ORDERS[name]: one for name, one in vars(row).items() if name in _ORDERS}
        orders = list(cells)
        claimed = (Cell(one.claimed, "formula") for one in cells.values())
        below = groups.setdefault((Cell(row.kind), *claimed), [])
        if row.impl is None:
            below.append((Cell(cells[orders[0]].reason, "soft"),))
            continue
        for one in cells.values():
            if one.verdict != NOT_MEASURED:
                notes.setdefault(one.reason, len(notes))
        below.append((row.impl, *(_order_cell(one, notes) for one in cells.values())))
    return Table({"layer": "layer", **dict.fromkeys(orders, "formula")}, groups=groups, notes=list(notes)[1:])


def _order_cell(one: Order, notes: Mapping[str, int | None]) -> Cell:
    """A measured order with its verdict and the number of its note; without a verdict if it was not measured."""
    if one.verdict == NOT_MEASURED:
        return Cell(f"{NOT_MEASURED}: {one.reason}", "soft")
    return Cell(one.measured, verdict=one.verdict, note=notes[one.reason])
