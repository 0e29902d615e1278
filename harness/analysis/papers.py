"""A paper: its published figures and claims, read from `conf/paper/`, and the quantities that they are about.

A paper's file has this form:

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from harness import registry
from harness.analysis.series import point_of
from harness.case import AXES, FAILURES
from harness.config.axes import check_axis, flattened
from harness.errors import UsageError, did_you_mean
from harness.results.table import CaseResult

KINDS = ("about", "at_least", "at_most", "exponent", "overtakes")
Size = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Figure:
    """One published number for the layer `of`, or the ratio of `of` to `over`.

    If the published case has no number, `value` is None and `ended` says how the case ended. The part of `at` that
    distinguishes this figure from others of the paper is `told`. It was measured on `hardware`.
    """

    table: str
    quantity: str
    of: str
    over: str
    at: Size
    told: Size
    value: float | None
    ended: str
    hardware: str
    source: str
    second_hand: str


@dataclass(frozen=True)
class Claim:
    """What a paper claims of a quantity of the layer `of`, or of the ratio of `of` to `over`.

    The `kind` is one of `KINDS`. With `against`, the claim is about the quantity divided by the same quantity
    elsewhere. For that, `against` names axes of `at` and another value for each.

    | kind | holds if the quantity |
    | --- | --- |
    | `about` | is `wanted[0]`, within a share `within` of it |
    | `at_least` | is at least `wanted[0]` at every point |
    | `at_most` | is at most `wanted[0]` at every point |
    | `exponent` | grows as n to the power `wanted[0]`, within `within`, between the two largest n |
    | `overtakes` | exceeds that of `over` from an n between `wanted[0]` (0: no lower limit) and `wanted[1]` on |
    """

    says: str
    kind: str
    quantity: str
    of: str
    over: str
    at: Size
    against: Size
    wanted: tuple[float, ...]
    within: float
    source: str


@dataclass(frozen=True)
class Paper:
    """A published setting with its figures and claims.

    The text `differs` says how the measured scale differs from the published one. It is empty if they are the same.
    The list `changed` holds the settings that the user set to other values than the scale has.
    """

    name: str
    source: str
    hardware: str
    setting: str
    scale: str
    differs: str
    notes: tuple[str, ...]
    changed: tuple[str, ...]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]


def size_text(at: Size) -> str:
    """Write axes and values as text: `seq_len=1024 mask=none`."""
    return " ".join(f"{axis}={','.join(map(str, values))}" for axis, values in at.items())


# The functions below read and check the parts of a paper's file. A UsageError says in one line where a part is wrong:
# `where` names the place.

# The axes of a figure: those of a case, and the width of one head.
AT = (*AXES, "head_dim")


def read_layers(name: Any, where: str) -> tuple[str, str]:
    """Split `impl` or `impl / other` into two names, the second empty if absent.

    Raises UsageError if a name is not that of a layer.
    """
    of, _, over = (part.strip() for part in str(name).partition(" / "))
    for layer in (of, over) if " /" in str(name) else (of,):
        try:
            registry.check_name(layer)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    return of, over


def read_size(given: Any, where: str) -> dict[str, tuple[Any, ...]]:
    """Return the values of each axis; empty if None is given. Raises UsageError for unknown axes or values."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: at is no table of axes")
    return {
        read_choice(axis, AT, f"{where}: at"): read_values(axis, flattened(value), where)
        for axis, value in given.items()
    }


def read_baseline(given: Any, at: Size, where: str) -> dict[str, tuple[Any, ...]]:
    """Return the axes and values at which the quantity to divide by is found.

    Raises UsageError for `head_dim`, and unless each axis has one value here and another single value in `at`.
    """
    against = read_size(given, f"{where}: against")
    for axis, values in against.items():
        if axis == "head_dim" or len(values) != 1 or len(at.get(axis, ())) != 1 or at[axis] == values:
            raise UsageError(
                f"{where}: against: {axis}: it takes axes of at, with one value there and another one here"
            )
    return against


def read_values(axis: str, given: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Return the checked values of an axis. Raises UsageError for an invalid or repeated value."""
    try:
        values = check_axis("d_model" if axis == "head_dim" else axis, given)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    if len(values) != len(given):
        raise UsageError(f"{where}: {axis} has a value twice")
    return values


def check_keys(given: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
    """Raise UsageError for an unknown key."""
    for key in given:
        read_choice(key, known, where)


def read_text(given: Any, where: str) -> str:
    """Return the text on one line; empty if None is given. Raises UsageError for anything else."""
    if given is not None and not isinstance(given, str):
        raise UsageError(f"{where}: {given} is no text")
    return " ".join((given or "").split())


def read_list(given: Any, where: str) -> Sequence[Any]:
    """Return the list; empty if None is given. Raises UsageError for anything else."""
    if given is not None and not isinstance(given, list):
        raise UsageError(f"{where}: it takes a list")
    return given or []


def read_number(given: Any, where: str) -> float:
    """Return the number as a float. Raises UsageError for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise UsageError(f"{where}: {given} is no number")
    return float(given)


def read_choice(given: Any, known: Any, where: str) -> str:
    """Return the name as text. Raises UsageError if it is not one of the known names."""
    if given not in known:
        raise UsageError(f"{where}: {given}{did_you_mean(str(given), list(known))}")
    return str(given)


# A value and the ends of its 95 % interval. For an exact quantity all three are equal.
Known = tuple[float, float, float]

# FLOPs of attention without projections, in units of its forward pass. They are counted as in Dao 2023,
# "FlashAttention-2", section 4.1. The forward pass does 4n²d for each sequence. A causal mask halves this, whether the
# kernel skips the other half or not. The backward pass does 2.5 times as much, because it computes the scores again.
_PASSES = {"forward": 1.0, "backward": 2.5, "train": 3.5}


@dataclass(frozen=True)
class Quantity:
    """A quantity of published figures, with its title and unit.

    `of` returns the quantity for a line, in `unit`, or None if it was not measured.
    """

    title: str
    unit: str
    of: Callable[[CaseResult], Known | None]


def _time(line: CaseResult) -> Known | None:
    point = point_of(line, "time")
    return None if point is None else (point.value, point.lo, point.hi)


def _memory(line: CaseResult) -> Known | None:
    """The bytes alive at the peak, including weights and inputs, as in `torch.cuda.max_memory_allocated`."""
    parts = (line.peak_bytes, line.weights_bytes, line.inputs_bytes)
    return None if any(part is None for part in parts) else _exact(sum(part or 0 for part in parts))


def _attention_work(line: CaseResult) -> float:
    of_all = 4.0 * line.batch_size * line.seq_len**2 * line.d_model * _PASSES[line.mode]
    return of_all / 2 if line.mask == "causal" else of_all


def _tflops(line: CaseResult) -> Known | None:
    return _divided_by(lambda one: _attention_work(one) / 1e12)(line) if line.mode in _PASSES else None


def _divided_by(amount: Callable[[CaseResult], float]) -> Callable[[CaseResult], Known | None]:
    """A function that returns the amount per second of a line, with its interval."""

    def of(line: CaseResult) -> Known | None:
        time = _time(line)
        if time is None:
            return None
        value, lo, hi = time
        done = amount(line)
        return done / value, done / hi, done / lo if lo > 0 else math.inf

    return of


def _in_unit(part: Callable[[CaseResult], Known | None], unit: float) -> Callable[[CaseResult], Known | None]:
    def of(line: CaseResult) -> Known | None:
        known = part(line)
        return None if known is None else (known[0] / unit, known[1] / unit, known[2] / unit)

    return of


def _count(column: str) -> Callable[[CaseResult], Known | None]:
    def of(line: CaseResult) -> Known | None:
        value = getattr(line, column)
        return None if value is None else _exact(value)

    return of


def _exact(value: float) -> Known:
    return float(value), float(value), float(value)


QUANTITIES = {
    "time_ms": Quantity("time of a call", "ms", _in_unit(_time, 1e-3)),
    "memory_MiB": Quantity("peak memory, weights and inputs included", "MiB", _in_unit(_memory, 2**20)),
    "memory_GB": Quantity("peak memory, weights and inputs included", "GB", _in_unit(_memory, 1e9)),
    "attention_tflops": Quantity("4n²d a pass over the time", "TFLOP/s", _tflops),
    "calls_per_s": Quantity("calls a second", "1/s", _divided_by(lambda line: 1.0)),
    "work": Quantity("work", "FLOPs", _count("flops")),
    "depth": Quantity("sequential operations", "", _count("depth")),
}


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
    texts = {name: read_text(held.get(name), f"{where}: {name}") for name in _TEXTS}
    tables, claims = (read_list(held.get(name), f"{where}: {name}") for name in ("tables", "claims"))
    everywhere = read_size(held.get("at"), where)
    return Paper(
        **texts,
        notes=tuple(read_text(note, f"{where}: notes") for note in read_list(held.get("notes"), f"{where}: notes")),
        changed=tuple(str(one) for one in read_list(held.get("changed"), f"{where}: changed")),
        figures=tuple(
            figure for table in tables for figure in _read_figures(table, everywhere, texts["hardware"], where)
        ),
        claims=tuple(_read_claim(claim, everywhere, where) for claim in claims),
    )


_TEXTS = tuple(field.name for field in fields(Paper) if field.type is str)


def _read_figures(table: Any, everywhere: Size, hardware: str, where: str) -> Iterator[Figure]:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: a table is no table")
    title = read_text(table.get("title"), f"{where}: title")
    where = f"{where}: {title}"
    check_keys(table, _TABLE, where)
    quantity = read_choice(table.get("quantity"), QUANTITIES, f"{where}: quantity")
    along = read_choice(table.get("along"), AT, f"{where}: along")
    source, second_hand = (read_text(table.get(text), f"{where}: {text}") for text in ("source", "second_hand"))
    hardware = read_text(table.get("hardware"), f"{where}: hardware") or hardware
    if not source:
        raise UsageError(f"{where}: source: say where its figures are from")
    columns = read_values(along, read_list(table.get("columns"), f"{where}: columns"), where)
    rows = table.get("rows")
    if not isinstance(rows, Mapping):
        raise UsageError(f"{where}: rows is no table of rows")
    for name, cells in rows.items():
        of = read_layers(name, where)
        cells = read_list(cells, f"{where}: {name}")
        if len(cells) != len(columns):
            raise UsageError(f"{where}: {name} has {len(cells)} cells for {len(columns)} columns")
        for column, cell in zip(columns, cells, strict=True):
            if cell is None:
                continue
            told = {**read_size(table.get("at"), where), along: (column,)}
            value, ended = _read_cell(cell, f"{where}: {name}")
            at = {**everywhere, **told}
            yield Figure(title, quantity, *of, at, told, value, ended, hardware, source, second_hand)


def _read_cell(cell: Any, where: str) -> tuple[float | None, str]:
    if isinstance(cell, int | float) and not isinstance(cell, bool) and 0 < cell < math.inf:
        return float(cell), ""
    if cell not in FAILURES:
        raise UsageError(f"{where}: {cell}: a cell is a number above 0, null, or one of {', '.join(FAILURES)}")
    return None, str(cell)


def _read_claim(claim: Any, everywhere: Size, where: str) -> Claim:
    if not isinstance(claim, Mapping):
        raise UsageError(f"{where}: a claim is no table")
    says = read_text(claim.get("says"), f"{where}: says")
    if not says:
        raise UsageError(f"{where}: says: say in words what each claim is")
    where = f"{where}: {says}"
    check_keys(claim, _CLAIM, where)
    kinds = [kind for kind in KINDS if kind in claim]
    if len(kinds) != 1:
        raise UsageError(f"{where}: it takes one of {', '.join(KINDS)}")
    (kind,) = kinds
    given = claim[kind]
    wanted = tuple(read_number(one, f"{where}: {kind}") for one in (given if isinstance(given, list) else [given]))
    if len(wanted) != (2 if kind == "overtakes" else 1):
        raise UsageError(f"{where}: {kind} takes {'two numbers' if kind == 'overtakes' else 'one number'}")
    of, over = read_layers(claim.get("of"), where)
    if kind == "overtakes" and (not over or wanted[0] >= wanted[1]):
        raise UsageError(
            f"{where}: of takes 'impl / other' where one overtakes the other, and two n, the smaller first"
        )
    if (kind in ("about", "exponent")) != ("within" in claim):
        raise UsageError(f"{where}: within goes with about and exponent, which take it, and with nothing else")
    within = read_number(claim.get("within", 0.0), f"{where}: within")
    if within < 0:
        raise UsageError(f"{where}: within={within:g}: it takes a number from 0 on")
    at = {**everywhere, **read_size(claim.get("at"), where)}
    return Claim(
        says=says,
        kind=kind,
        quantity=read_choice(claim.get("quantity"), QUANTITIES, f"{where}: quantity"),
        of=of,
        over=over,
        at=at,
        against=read_baseline(claim.get("against"), at, where),
        wanted=wanted,
        within=within,
        source=read_text(claim.get("source"), f"{where}: source"),
    )
