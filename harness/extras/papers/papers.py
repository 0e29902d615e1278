"""Papers: the quantities they publish, and their figures and claims, read from the files in `conf/paper/`.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from harness.core.config.key_value_options import check_axis, flattened, long_names
from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError
from harness.core.model.file_validation import Damaged, FileModel, checked, one_of, validator
from harness.core.model.sweep_axes import AXES, FAILURES, present_axis
from harness.core.results.columns import CaseResult

if TYPE_CHECKING:
    from harness.study.laws.series import Point

# A value and the ends of its 95 % interval. For an exact quantity all three are equal.
Known = tuple[float, float, float]

# FLOPs of attention without projections, in units of its forward pass. They are counted as in Dao 2023,
# "FlashAttention-2", section 4.1. The forward pass does 4n²d for each sequence. A causal mask halves this, whether the
# kernel skips the other half or not. The backward pass does 2.5 times as much, because it computes the scores again.
_PASSES = {"forward": 1.0, "backward": 2.5, "train": 3.5}
_PEAK = "peak memory, weights and inputs included"


@dataclass(frozen=True)
class Quantity:
    """A quantity of published figures, with its title and unit.

    `of` returns the quantity for a line, in `unit`, or None if it was not measured.
    """

    title: str
    unit: str
    of: Callable[[CaseResult], Known | None]


def _time(line: CaseResult) -> "Point | None":
    from harness.study.laws.series import point_of  # loads scipy, which a sweep of a paper does not wait for

    return point_of(line, "time")


def _milliseconds(line: CaseResult) -> Known | None:
    time = _time(line)
    return (time.value / 1e-3, time.lo / 1e-3, time.hi / 1e-3) if time else None


def _per_second(line: CaseResult, amount: float) -> Known | None:
    """The amount divided by the time of a call, with its interval."""
    time = _time(line)
    return (amount / time.value, amount / time.hi, amount / time.lo if time.lo > 0 else math.inf) if time else None


def _attention_tflops(line: CaseResult) -> Known | None:
    if line.mode not in _PASSES:
        return None
    of_all = 4.0 * line.batch_size * line.seq_len**2 * line.d_model * _PASSES[line.mode]
    return _per_second(line, (of_all / 2 if line.mask == "causal" else of_all) / 1e12)


def _exact(*parts: float | None, unit: float = 1.0) -> Known | None:
    """The sum of exact parts, in `unit`; None if a part is not known."""
    values = [part for part in parts if part is not None]
    return (sum(values) / unit,) * 3 if len(values) == len(parts) else None


def _peak(unit: float) -> Callable[[CaseResult], Known | None]:
    """The bytes alive at the peak, including weights and inputs, as in `torch.cuda.max_memory_allocated`."""
    return lambda line: _exact(line.peak_bytes, line.weights_bytes, line.inputs_bytes, unit=unit)


QUANTITIES = {
    "time_ms": Quantity("time of a call", "ms", _milliseconds),
    "memory_MiB": Quantity(_PEAK, "MiB", _peak(2**20)),
    "memory_GB": Quantity(_PEAK, "GB", _peak(1e9)),
    "attention_tflops": Quantity("4n²d a pass over the time", "TFLOP/s", _attention_tflops),
    "calls_per_s": Quantity("calls a second", "1/s", lambda line: _per_second(line, 1.0)),
    "work": Quantity("work", "FLOPs", lambda line: _exact(line.flops)),
    # It repeats exactly on one machine.
    "output_error": Quantity("relative error of the output", "", lambda line: _exact(line.output_error)),
    "depth": Quantity("sequential operations", "", lambda line: _exact(line.depth)),
}


Size = Mapping[str, tuple[Any, ...]]


def size_text(at: Size) -> str:
    """Write axes and values as text: `seq_len=1024 mask=none`."""
    return " ".join(f"{axis}={','.join(map(str, values))}" for axis, values in at.items())


@dataclass(frozen=True)
class Figure:
    """One published number for the layer `of`, or the ratio of `of` to `over`.

    If the published case has no number, `value` is None and `ended` says how the case ended. The part of `at` that
    distinguishes this figure from others of the paper is `differing`. It was measured on `hardware`.
    """

    table: str
    quantity: str
    of: str
    over: str
    at: Size
    differing: Size
    value: float | None
    ended: str
    hardware: str
    source: str
    second_hand: str


KINDS = ("about", "at_least", "at_most", "exponent", "overtakes")
# The axes of a figure: those of a case, and the width of one head.
AT = (*AXES, "head_dim")


@validator
def _layers(name: Any) -> tuple[str, str]:
    """Split `impl` or `impl / other` into two names, the second empty if absent."""
    of, slash, over = (part.strip() for part in str(name).partition(" /"))
    for layer in (of, over) if slash else (of,):
        layer_lookup.check_name(layer)
    return of, over


@validator
def _values(axis: str, stated: Sequence[Any]) -> tuple[Any, ...]:
    values = check_axis("d_model" if axis == "head_dim" else axis, stated)
    if len(values) != len(stated):
        raise ValueError(f"{axis} has a value twice")
    return values


def _size(sizes: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {axis: _values(axis, flattened(value)) for axis, value in sizes.items()}


def _long_names(sizes: Any) -> Any:
    return long_names(sizes) if isinstance(sizes, Mapping) else sizes


def _cell(cell: Any) -> tuple[float | None, str]:
    """The number of a cell, or how the published case ended; neither for an empty cell."""
    if cell is None:
        return None, ""
    if isinstance(cell, int | float) and not isinstance(cell, bool) and 0 < cell < math.inf:
        return float(cell), ""
    if cell not in FAILURES:
        raise ValueError(f"{cell}: a cell is a number above 0, null, or one of {', '.join(FAILURES)}")
    return None, str(cell)


# A text on one line.
_Text = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]
_Quantity = Annotated[str, one_of(QUANTITIES)]
_Axis = Annotated[str, BeforeValidator(present_axis), one_of(AT)]
_Size = Annotated[dict[_Axis, Any], BeforeValidator(_long_names), AfterValidator(_size)]
_Layers = Annotated[tuple[str, str], BeforeValidator(_layers)]
_Cell = Annotated[Any, AfterValidator(_cell)]
_Numbers = Annotated[list[float] | None, BeforeValidator(lambda given: given if isinstance(given, list) else [given])]


class _Part(FileModel):
    """A part of the file. A null is like an entry that is absent."""

    @model_validator(mode="before")
    @classmethod
    def _present(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        return {name: value for name, value in content.items() if value is not None}


class _Table(_Part):
    title: _Text = ""
    quantity: _Quantity
    hardware: _Text = ""
    source: _Text = ""
    second_hand: _Text = ""
    at: _Size = Field(default_factory=dict)
    along: _Axis
    columns: list[Any] = Field(default_factory=list)
    rows: dict[_Layers, list[_Cell]]

    @model_validator(mode="after")
    def _fits(self) -> "_Table":
        if not self.source:
            raise ValueError("source: say where its figures are from")
        self.columns = [*_values(self.along, self.columns)]
        for layers, cells in self.rows.items():
            if len(cells) != len(self.columns):
                name = " / ".join(filter(None, layers))
                raise ValueError(f"{name} has {len(cells)} cells for {len(self.columns)} columns")
        return self

    def figures(self, everywhere: dict[str, Any], hardware: str) -> Iterator[Figure]:
        about = self.hardware or hardware, self.source, self.second_hand
        for (of, over), cells in self.rows.items():
            for column, (value, ended) in zip(self.columns, cells, strict=True):
                if value is not None or ended:
                    shown = {**self.at, self.along: (column,)}
                    at = {**everywhere, **shown}
                    yield Figure(self.title, self.quantity, of, over, at, shown, value, ended, *about)


class Claim(_Part):
    """What a paper claims of a quantity of the layer `of[0]`, or, if `of[1]` is not empty, of its ratio to that layer.

    The `kind` is one of `KINDS`. With `against`, the claim is about the quantity divided by the same quantity
    elsewhere. For that, `against` names axes of `at` and another value for each.

    | kind | holds if the quantity |
    | --- | --- |
    | `about` | is `wanted[0]`, within a share `within` of it |
    | `at_least` | is at least `wanted[0]` at every point |
    | `at_most` | is at most `wanted[0]` at every point |
    | `exponent` | grows as n to the power `wanted[0]`, within `within`, between the two largest n |
    | `overtakes` | exceeds that of `of[1]` from an n between `wanted[0]` (0: no lower limit) and `wanted[1]` on |
    """

    says: _Text = ""
    of: _Layers
    quantity: _Quantity
    at: _Size = Field(default_factory=dict)
    against: _Size = Field(default_factory=dict)
    within: Annotated[float, Field(ge=0)] = 0.0
    source: _Text = ""
    about: _Numbers = None
    at_least: _Numbers = None
    at_most: _Numbers = None
    exponent: _Numbers = None
    overtakes: _Numbers = None

    @model_validator(mode="after")
    def _fits(self) -> "Claim":
        if not self.says:
            raise ValueError("says: say in words what each claim is")
        kinds = self.model_fields_set.intersection(KINDS)
        if len(kinds) != 1:
            raise ValueError(f"it takes one of {', '.join(KINDS)}")
        kind, numbers = self.kind, self.wanted
        if len(numbers) != (2 if kind == "overtakes" else 1):
            raise ValueError(f"{kind} takes {'two numbers' if kind == 'overtakes' else 'one number'}")
        if kind == "overtakes" and not (self.of[1] and numbers[0] < numbers[1]):
            raise ValueError("of takes 'impl / other' where one overtakes the other, and two n, the smaller first")
        if (kind in ("about", "exponent")) != ("within" in self.model_fields_set):
            raise ValueError("within goes with about and exponent, which take it, and with nothing else")
        return self

    @property
    def kind(self) -> str:
        """The one of `KINDS` that the claim has."""
        return next(kind for kind in KINDS if kind in self.model_fields_set)

    @property
    def wanted(self) -> tuple[float, ...]:
        """The claimed number, or both of `overtakes`."""
        return tuple(getattr(self, self.kind))


class Paper(_Part):
    """A published setting with its figures and claims.

    The text `differs` says how the measured scale differs from the published one. It is empty if they are the same.
    The list `changed` holds the settings that the user set to other values than the scale has. The sizes `at` hold for
    all figures and claims.
    """

    name: _Text = ""
    source: _Text = ""
    hardware: _Text = ""
    setting: _Text = ""
    scale: _Text = ""
    differs: _Text = ""
    notes: list[_Text] = Field(default_factory=list)
    changed: list[Annotated[Any, AfterValidator(str)]] = Field(default_factory=list)
    at: _Size = Field(default_factory=dict)
    tables: list[_Table] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)

    @model_validator(mode="after")
    def _claims_fit(self) -> "Paper":
        for claim in self.claims:
            claim.at = {**self.at, **claim.at}
            for axis, values in claim.against.items():
                there = claim.at.get(axis, ())
                if axis == "head_dim" or len(values) != 1 or len(there) != 1 or there == values:
                    place = f"{claim.says}: against: {axis}"
                    raise ValueError(f"{place}: it takes axes of at, with one value there and another one here")
        return self

    @property
    def figures(self) -> list[Figure]:
        """The figures of all tables."""
        return [figure for table in self.tables for figure in table.figures(self.at, self.hardware)]


def paper_of(config: Mapping[str, Any]) -> Paper | None:
    """Return the paper in a run's configuration; None if it has none. Raises UsageError if it cannot be read."""
    content = config.get("paper")
    try:
        return checked(Paper, content) if content else None
    except Damaged as damage:
        raise UsageError(
            f"paper {content.get('name') if isinstance(content, Mapping) else content}: {damage}"
        ) from damage
