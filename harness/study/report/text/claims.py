"""Claims as text: theory's verdicts, and Table 1."""

from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter

from harness.core.model import formatting
from harness.study.claims.claim_rules import NOT_MEASURED, REFUTED, UNDETERMINED
from harness.study.claims.claims_table import VERDICTS, ClaimVerdict
from harness.study.claims.table1 import BeyondRow, Table1Row
from harness.study.claims.table1 import Cell as Order
from harness.study.report.document import Cell, Groups, Table, grouped

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


def verdict_count(verdicts: Sequence[str], whose: str = "") -> str:
    """Count the verdicts: `Of 30 claims 27 confirmed, 1 refuted, 2 undetermined.`"""
    text = [f"{verdicts.count(kind)} {kind}" for kind in (*VERDICTS, NOT_MEASURED) if kind in verdicts]
    return f"Of {formatting.counted(len(verdicts), 'claim')}{whose} {', '.join(text)}." if text else ""


def refuted_sentences(verdicts: Sequence[ClaimVerdict]) -> list[str]:
    """One sentence for each refuted claim, which names what distinguishes its setting from the others'."""
    where = setting_label((claim.setting for claim in verdicts), but="mode")
    sentences = []
    for claim in verdicts:
        if claim.verdict == REFUTED:
            # The mode is in brackets: `FLOPs, forward` would give it twice.
            quantity = claim_name(claim.quantity).partition(",")[0]
            setting = ", ".join(filter(None, (claim.setting.mode, where(claim.setting))))
            measured = "" if claim.reason.startswith("measured") else f"measured {claim.measured}: "
            reason = f"{measured}{claim.reason.rstrip('.')}."
            sentences.append(f"Refuted: {claim.impl} ({setting}) claims {quantity} of {claim.claimed}, {reason}")
    return sentences


def claim_name(quantity: str) -> str:
    """The quantity in words; an unknown one by its own name."""
    return QUANTITIES.get(quantity, quantity)


def claims_table(verdicts: Sequence[ClaimVerdict]) -> Table:
    """The verdicts as a table with a group for each layer and setting."""
    where = setting_label(claim.setting for claim in verdicts)
    columns = {"layer, quantity": "claim", "verdict": "verdict", "claimed": "formula", "measured": "formula"}
    concerned = (
        (claim.reason, claim_name(claim.quantity), claim.impl) for claim in verdicts if claim.verdict == UNDETERMINED
    )
    numbers, notes = numbered_notes(concerned, fewest=2)
    groups: Groups = {}
    for claim in verdicts:
        is_noted = claim.verdict == UNDETERMINED and claim.reason in numbers
        why = Cell(f"note {numbers[claim.reason]}" if is_noted else claim.reason)
        row = claim_name(claim.quantity), claim.verdict, claim.claimed, claim.measured, why
        groups.setdefault((Cell(claim.impl, "layer", aside=where(claim.setting)),), []).append(row)
    return Table({**columns, "why": "why"}, groups=groups, notes=notes)


def numbered_notes(concerned: Iterable[tuple[str, str, str]], fewest: int = 1) -> tuple[dict[str, int], list[str]]:
    """The number of each reason below a table, and the notes: the reason with what it concerns, each layer once.

    `concerned` are a reason, a quantity and a layer each. Reasons with fewer than `fewest` of them have no note.
    `time of rnn.torch, attention.fused` for the quantities `time` of `rnn.torch` and `time` of `attention.fused`.
    """
    numbers: dict[str, int] = {}
    notes = []
    for reason, members in grouped(concerned, itemgetter(0)).items():
        if len(members) >= fewest:
            alike = grouped(dict.fromkeys(members), itemgetter(1))
            text = [f"{name} of {', '.join(impl for *_, impl in of_name)}" for name, of_name in alike.items()]
            notes.append(f"{reason}: {'; '.join(text)}")
            numbers[reason] = len(notes)
    return numbers, notes


def claims_overview(verdicts: Sequence[ClaimVerdict]) -> Table:
    """The verdicts with a row for each layer and mode and a column for each quantity.

    Several settings can share a cell: it shows a refutation in any of them.
    """
    quantities = dict.fromkeys(claim.quantity for claim in verdicts)
    rows = []
    for (impl, mode), claims in grouped(verdicts, attrgetter("impl", "setting.mode")).items():
        shown: dict[str, str] = {}
        for claim in sorted(claims, key=lambda claim: claim.verdict != REFUTED):
            shown.setdefault(claim.quantity, claim.verdict)
        rows.append((impl, mode, *(shown.get(quantity, "") for quantity in quantities)))
    return Table({"layer": "layer", "mode": "", **dict.fromkeys(map(claim_name, quantities), "verdict")}, rows)


_ORDERS = {
    "complexity": "complexity per layer",
    "sequential": "sequential operations",
    "path": "maximum path length",
    "training": "training a layer",
    "per_token": "one token at inference",
}


def order_table(rows: Sequence[Table1Row] | Sequence[BeyondRow]) -> Table:
    """Table 1, or the table beyond it, with a group for each kind of layer: the paper's orders above the measured ones.

    Each reason is one of the table's numbered `notes`.
    """
    notes: dict[str, int | None] = {"": None}
    groups: Groups = {}
    orders: dict[str, Order] = {}
    for row in rows:
        orders = {_ORDERS[name]: order for name, order in vars(row).items() if name in _ORDERS}
        claimed = (Cell(order.claimed, "formula") for order in orders.values())
        below = groups.setdefault((Cell(row.kind), *claimed), [])
        cells = []
        for order in orders.values():
            if order.verdict == NOT_MEASURED:
                cells.append(Cell(f"{NOT_MEASURED}: {order.reason}", "soft"))
            else:
                note = notes.setdefault(order.reason, len(notes))
                cells.append(Cell(order.measured, verdict=order.verdict, note=note))
        below.append((row.impl, *cells) if row.impl else (Cell(next(iter(orders.values())).reason, "soft"),))
    return Table({"layer": "layer", **dict.fromkeys(orders, "formula")}, groups=groups, notes=list(notes)[1:])
