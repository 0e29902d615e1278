"""Read a paper from its file in `conf/paper/`.

    paper:
      name: …                   source: …              hardware: …            setting: …
      scale: full|cpu           differs: how the scale differs from the published setting
      at: {mode: train}         notes: [what a reader must know beside the figures]
      tables:
        - title: …              quantity: time_ms      source: …              second_hand: why, or nothing
          at: {mask: none}      along: seq_len         columns: [1024, 2048]  hardware: …, if it is another
          rows: {impl: [3.67, oom], impl / other: [2.0, 3.0]}
      claims:
        - says: …               of: impl / other       quantity: memory_MiB   at: {seq_len: 4096}
          about: 20.4           within: 0.2            (or at_least, at_most, exponent, overtakes: [lo, hi])
          against: {seq_len: 2048}                     (of the quantity over the same one there)

A row `impl / other` holds ratios of the quantity of one layer to that of the other. A cell may be a word such as `oom`,
which says how the published case ended. A null cell means that no figure was published.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from harness.case import FAILURES
from harness.errors import UsageError
from harness.findings.papers.paper import KINDS, At, Claim, Figure, Paper
from harness.findings.papers.parts import (
    AT,
    against_of,
    at_of,
    check_keys,
    layers_of,
    list_of,
    number_of,
    one_of,
    text_of,
    values_of,
)
from harness.findings.papers.quantities import QUANTITIES

_PARTS = ("tables", "claims", "notes", "at", "changed")
_TABLE = ("title", "quantity", "hardware", "source", "second_hand", "at", "along", "columns", "rows")
_CLAIM = ("says", "of", "quantity", "at", "against", "within", "source", *KINDS)


def paper_of(config: Mapping[str, Any] | None) -> Paper | None:
    """Return the paper in a run's configuration; None if it has none. Raises UsageError if it cannot be read."""
    held = (config or {}).get("paper")
    if not held:
        return None
    if not isinstance(held, Mapping):
        raise UsageError("paper: it is no table of what a paper has published")
    where = f"paper {held.get('name')}"
    check_keys(held, (*_TEXTS, *_PARTS), where)
    texts = {name: text_of(held.get(name), f"{where}: {name}") for name in _TEXTS}
    tables, claims = (list_of(held.get(name), f"{where}: {name}") for name in ("tables", "claims"))
    everywhere = at_of(held.get("at"), where)
    return Paper(
        **texts,
        notes=tuple(text_of(note, f"{where}: notes") for note in list_of(held.get("notes"), f"{where}: notes")),
        changed=tuple(str(one) for one in list_of(held.get("changed"), f"{where}: changed")),
        figures=tuple(figure for table in tables for figure in _figures(table, everywhere, texts["hardware"], where)),
        claims=tuple(_claim(claim, everywhere, where) for claim in claims),
    )


_TEXTS = tuple(field.name for field in fields(Paper) if field.type is str)


def _figures(table: Any, everywhere: At, hardware: str, where: str) -> Iterator[Figure]:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: a table is no table")
    title = text_of(table.get("title"), f"{where}: title")
    where = f"{where}: {title}"
    check_keys(table, _TABLE, where)
    quantity = one_of(table.get("quantity"), QUANTITIES, f"{where}: quantity")
    along = one_of(table.get("along"), AT, f"{where}: along")
    source, second_hand = (text_of(table.get(text), f"{where}: {text}") for text in ("source", "second_hand"))
    hardware = text_of(table.get("hardware"), f"{where}: hardware") or hardware
    if not source:
        raise UsageError(f"{where}: source: say where its figures are from")
    columns = values_of(along, list_of(table.get("columns"), f"{where}: columns"), where)
    rows = table.get("rows")
    if not isinstance(rows, Mapping):
        raise UsageError(f"{where}: rows is no table of rows")
    for name, cells in rows.items():
        of = layers_of(name, where)
        cells = list_of(cells, f"{where}: {name}")
        if len(cells) != len(columns):
            raise UsageError(f"{where}: {name} has {len(cells)} cells for {len(columns)} columns")
        for column, cell in zip(columns, cells, strict=True):
            if cell is None:
                continue
            told = {**at_of(table.get("at"), where), along: (column,)}
            value, ended = _cell(cell, f"{where}: {name}")
            at = {**everywhere, **told}
            yield Figure(title, quantity, *of, at, told, value, ended, hardware, source, second_hand)


def _cell(cell: Any, where: str) -> tuple[float | None, str]:
    if isinstance(cell, int | float) and not isinstance(cell, bool) and 0 < cell < math.inf:
        return float(cell), ""
    if cell not in FAILURES:
        raise UsageError(f"{where}: {cell}: a cell is a number above 0, null, or one of {', '.join(FAILURES)}")
    return None, str(cell)


def _claim(claim: Any, everywhere: At, where: str) -> Claim:
    if not isinstance(claim, Mapping):
        raise UsageError(f"{where}: a claim is no table")
    says = text_of(claim.get("says"), f"{where}: says")
    if not says:
        raise UsageError(f"{where}: says: say in words what each claim is")
    where = f"{where}: {says}"
    check_keys(claim, _CLAIM, where)
    kinds = [kind for kind in KINDS if kind in claim]
    if len(kinds) != 1:
        raise UsageError(f"{where}: it takes one of {', '.join(KINDS)}")
    (kind,) = kinds
    given = claim[kind]
    wanted = tuple(number_of(one, f"{where}: {kind}") for one in (given if isinstance(given, list) else [given]))
    if len(wanted) != (2 if kind == "overtakes" else 1):
        raise UsageError(f"{where}: {kind} takes {'two numbers' if kind == 'overtakes' else 'one number'}")
    of, over = layers_of(claim.get("of"), where)
    if kind == "overtakes" and (not over or wanted[0] >= wanted[1]):
        raise UsageError(
            f"{where}: of takes 'impl / other' where one overtakes the other, and two n, the smaller first"
        )
    if (kind in ("about", "exponent")) != ("within" in claim):
        raise UsageError(f"{where}: within goes with about and exponent, which take it, and with nothing else")
    within = number_of(claim.get("within", 0.0), f"{where}: within")
    if within < 0:
        raise UsageError(f"{where}: within={within:g}: it takes a number from 0 on")
    at = {**everywhere, **at_of(claim.get("at"), where)}
    return Claim(
        says=says,
        kind=kind,
        quantity=one_of(claim.get("quantity"), QUANTITIES, f"{where}: quantity"),
        of=of,
        over=over,
        at=at,
        against=against_of(claim.get("against"), at, where),
        wanted=wanted,
        within=within,
        source=text_of(claim.get("source"), f"{where}: source"),
    )
