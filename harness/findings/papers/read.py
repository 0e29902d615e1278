"""A paper as its file in `conf/paper/` has it, read.

    paper:
      name: …                   source: …              hardware: …            setting: …
      scale: full|cpu           differs: how the scale differs from the published setting
      notes: [what a reader must know beside the figures]
      tables:
        - title: …              quantity: time_ms      source: …              second_hand: why, or nothing
          at: {mask: none}      along: seq_len         columns: [1024, 2048]
          rows: {impl: [3.67, oom], impl / other: [2.0, 3.0]}
      claims:
        - says: …               of: impl / other       quantity: memory_MiB   at: {seq_len: 4096}
          about: 20.4           within: 0.2            (or at_least, at_most, exponent, overtakes: [lo, hi])

A row `impl / other` is of the quantity of one over that of the other. A number that is none, such as `oom`, says how
the published case has ended; null, that there is no figure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from harness.case import FAILURES
from harness.errors import UsageError, did_you_mean
from harness.findings.papers.paper import KINDS, Claim, Figure, Paper
from harness.findings.papers.quantities import QUANTITIES
from harness.summary.line import COLUMNS

# Axes that a figure may be at: a line's own columns, and the width of one head.
_AT = (*COLUMNS, "head_dim")


def paper_of(config: Mapping[str, Any] | None) -> Paper | None:
    """The paper in a run's configuration; None where there is none. Raises UsageError for one that cannot be read."""
    held = (config or {}).get("paper")
    if not held:
        return None
    if not isinstance(held, Mapping):
        raise UsageError("paper: it is no table of what a paper has published")
    where = f"paper {held.get('name')}"
    texts = {name: _text(held.get(name), f"{where}: {name}") for name in _TEXTS}
    tables, claims = (_list(held.get(name), f"{where}: {name}") for name in ("tables", "claims"))
    return Paper(
        **texts,
        notes=tuple(_text(note, f"{where}: notes") for note in _list(held.get("notes"), f"{where}: notes")),
        figures=tuple(figure for table in tables for figure in _figures(table, where)),
        claims=tuple(_claim(claim, where) for claim in claims),
    )


_TEXTS = tuple(field.name for field in fields(Paper) if field.type is str)


def _figures(table: Any, where: str) -> Iterator[Figure]:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: a table is no table")
    title = _text(table.get("title"), f"{where}: title")
    where = f"{where}: {title}"
    quantity = _known(table.get("quantity"), QUANTITIES, f"{where}: quantity")
    along = _known(table.get("along"), _AT, f"{where}: along")
    columns = _list(table.get("columns"), f"{where}: columns")
    rows = table.get("rows")
    if not isinstance(rows, Mapping):
        raise UsageError(f"{where}: rows is no table of rows")
    for name, cells in rows.items():
        cells = _list(cells, f"{where}: {name}")
        if len(cells) != len(columns):
            raise UsageError(f"{where}: {name} has {len(cells)} cells for {len(columns)} columns")
        for column, cell in zip(columns, cells, strict=True):
            if cell is None:
                continue
            at = {**_at(table.get("at"), where), along: (column,)}
            value, ended = _cell(cell, f"{where}: {name}")
            texts = (_text(table.get(text), f"{where}: {text}") for text in ("source", "second_hand"))
            yield Figure(title, quantity, *_of(name), at, value, ended, *texts)


def _cell(cell: Any, where: str) -> tuple[float | None, str]:
    if isinstance(cell, int | float) and not isinstance(cell, bool) and cell > 0:
        return float(cell), ""
    return None, _known(cell, FAILURES, where)


def _claim(claim: Any, where: str) -> Claim:
    if not isinstance(claim, Mapping):
        raise UsageError(f"{where}: a claim is no table")
    says = _text(claim.get("says"), f"{where}: says")
    where = f"{where}: {says}"
    kinds = [kind for kind in KINDS if kind in claim]
    if len(kinds) != 1:
        raise UsageError(f"{where}: it takes one of {', '.join(KINDS)}")
    given = claim[kinds[0]]
    wanted = tuple(_number(one, f"{where}: {kinds[0]}") for one in (given if isinstance(given, list) else [given]))
    if len(wanted) != (2 if kinds[0] == "overtakes" else 1):
        raise UsageError(f"{where}: {kinds[0]} takes {'two numbers' if kinds[0] == 'overtakes' else 'one number'}")
    of, over = _of(claim.get("of"))
    if kinds[0] == "overtakes" and not over:
        raise UsageError(f"{where}: of takes 'impl / other' where one overtakes the other")
    return Claim(
        says=says,
        kind=kinds[0],
        quantity=_known(claim.get("quantity"), QUANTITIES, f"{where}: quantity"),
        of=of,
        over=over,
        at=_at(claim.get("at"), where),
        wanted=wanted,
        within=_number(claim.get("within", 0.0), f"{where}: within"),
        source=_text(claim.get("source"), f"{where}: source"),
    )


def _of(name: Any) -> tuple[str, str]:
    of, _, over = str(name).partition(" / ")
    return of.strip(), over.strip()


def _at(given: Any, where: str) -> dict[str, tuple[Any, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: at is no table of axes")
    return {
        _known(axis, _AT, f"{where}: at"): tuple(value) if isinstance(value, list) else (value,)
        for axis, value in given.items()
    }


def _text(given: Any, where: str) -> str:
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{where}: {given} is no text")
    return " ".join((given or "").split())


def _list(given: Any, where: str) -> Sequence[Any]:
    if given is not None and not isinstance(given, list):
        raise UsageError(f"{where}: it takes a list")
    return given or []


def _number(given: Any, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise UsageError(f"{where}: {given} is no number")
    return float(given)


def _known(given: Any, known: Any, where: str) -> str:
    if given not in known:
        raise UsageError(f"{where}: {given}{did_you_mean(str(given), list(known))}")
    return str(given)
