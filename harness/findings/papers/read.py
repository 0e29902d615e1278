"""A paper as its file in `conf/paper/` has it, read.

    paper:
      name: …                   source: …              hardware: …            setting: …
      scale: full|cpu           differs: how the scale differs from the published setting
      at: {mode: train}         notes: [what a reader must know beside the figures]
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

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from harness import catalog
from harness.case import AXES, FAILURES
from harness.config.axes import check_axis, flat
from harness.errors import UsageError, did_you_mean
from harness.findings.papers.paper import KINDS, At, Claim, Figure, Paper
from harness.findings.papers.quantities import QUANTITIES

# What a figure may be at: the axes of a case, and the width of one head.
_AT = (*AXES, "head_dim")
_PARTS = ("tables", "claims", "notes", "at", "changed")
_TABLE = ("title", "quantity", "source", "second_hand", "at", "along", "columns", "rows")
_CLAIM = ("says", "of", "quantity", "at", "within", "source", *KINDS)


def paper_of(config: Mapping[str, Any] | None) -> Paper | None:
    """The paper in a run's configuration; None where there is none. Raises UsageError for one that cannot be read."""
    held = (config or {}).get("paper")
    if not held:
        return None
    if not isinstance(held, Mapping):
        raise UsageError("paper: it is no table of what a paper has published")
    where = f"paper {held.get('name')}"
    _check_keys(held, (*_TEXTS, *_PARTS), where)
    texts = {name: _text(held.get(name), f"{where}: {name}") for name in _TEXTS}
    tables, claims = (_list(held.get(name), f"{where}: {name}") for name in ("tables", "claims"))
    everywhere = _at(held.get("at"), where)
    return Paper(
        **texts,
        notes=tuple(_text(note, f"{where}: notes") for note in _list(held.get("notes"), f"{where}: notes")),
        changed=tuple(str(one) for one in _list(held.get("changed"), f"{where}: changed")),
        figures=tuple(figure for table in tables for figure in _figures(table, everywhere, where)),
        claims=tuple(_claim(claim, everywhere, where) for claim in claims),
    )


_TEXTS = tuple(field.name for field in fields(Paper) if field.type is str)


def _figures(table: Any, everywhere: At, where: str) -> Iterator[Figure]:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: a table is no table")
    title = _text(table.get("title"), f"{where}: title")
    where = f"{where}: {title}"
    _check_keys(table, _TABLE, where)
    quantity = _known(table.get("quantity"), QUANTITIES, f"{where}: quantity")
    along = _known(table.get("along"), _AT, f"{where}: along")
    source, second_hand = (_text(table.get(text), f"{where}: {text}") for text in ("source", "second_hand"))
    if not source:
        raise UsageError(f"{where}: source: say where its figures are from")
    columns = _values(along, _list(table.get("columns"), f"{where}: columns"), where)
    rows = table.get("rows")
    if not isinstance(rows, Mapping):
        raise UsageError(f"{where}: rows is no table of rows")
    for name, cells in rows.items():
        of = _of(name, where)
        cells = _list(cells, f"{where}: {name}")
        if len(cells) != len(columns):
            raise UsageError(f"{where}: {name} has {len(cells)} cells for {len(columns)} columns")
        for column, cell in zip(columns, cells, strict=True):
            if cell is None:
                continue
            told = {**_at(table.get("at"), where), along: (column,)}
            value, ended = _cell(cell, f"{where}: {name}")
            yield Figure(title, quantity, *of, {**everywhere, **told}, told, value, ended, source, second_hand)


def _cell(cell: Any, where: str) -> tuple[float | None, str]:
    if isinstance(cell, int | float) and not isinstance(cell, bool) and 0 < cell < math.inf:
        return float(cell), ""
    if cell not in FAILURES:
        raise UsageError(f"{where}: {cell}: a cell is a number above 0, null, or one of {', '.join(FAILURES)}")
    return None, str(cell)


def _claim(claim: Any, everywhere: At, where: str) -> Claim:
    if not isinstance(claim, Mapping):
        raise UsageError(f"{where}: a claim is no table")
    says = _text(claim.get("says"), f"{where}: says")
    if not says:
        raise UsageError(f"{where}: says: say in words what each claim is")
    where = f"{where}: {says}"
    _check_keys(claim, _CLAIM, where)
    kinds = [kind for kind in KINDS if kind in claim]
    if len(kinds) != 1:
        raise UsageError(f"{where}: it takes one of {', '.join(KINDS)}")
    (kind,) = kinds
    given = claim[kind]
    wanted = tuple(_number(one, f"{where}: {kind}") for one in (given if isinstance(given, list) else [given]))
    if len(wanted) != (2 if kind == "overtakes" else 1):
        raise UsageError(f"{where}: {kind} takes {'two numbers' if kind == 'overtakes' else 'one number'}")
    of, over = _of(claim.get("of"), where)
    if kind == "overtakes" and (not over or wanted[0] >= wanted[1]):
        raise UsageError(
            f"{where}: of takes 'impl / other' where one overtakes the other, and two n, the smaller first"
        )
    if (kind in ("about", "exponent")) != ("within" in claim):
        raise UsageError(f"{where}: within goes with about and exponent, which take it, and with nothing else")
    within = _number(claim.get("within", 0.0), f"{where}: within")
    if within < 0:
        raise UsageError(f"{where}: within={within:g}: it takes a number from 0 on")
    return Claim(
        says=says,
        kind=kind,
        quantity=_known(claim.get("quantity"), QUANTITIES, f"{where}: quantity"),
        of=of,
        over=over,
        at={**everywhere, **_at(claim.get("at"), where)},
        wanted=wanted,
        within=within,
        source=_text(claim.get("source"), f"{where}: source"),
    )


def _of(name: Any, where: str) -> tuple[str, str]:
    """`impl`, or `impl / other`. Raises UsageError where one is no layer's name."""
    of, _, over = (part.strip() for part in str(name).partition(" / "))
    for layer in (of, over) if " /" in str(name) else (of,):
        try:
            catalog.check_name(layer)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    return of, over


def _at(given: Any, where: str) -> dict[str, tuple[Any, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: at is no table of axes")
    return {_known(axis, _AT, f"{where}: at"): _values(axis, flat(value), where) for axis, value in given.items()}


def _values(axis: str, given: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Values that an axis may have, each once."""
    try:
        values = check_axis("d_model" if axis == "head_dim" else axis, given)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    if len(values) != len(given):
        raise UsageError(f"{where}: {axis} has a value twice")
    return values


def _check_keys(given: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
    for key in given:
        _known(key, known, where)


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
