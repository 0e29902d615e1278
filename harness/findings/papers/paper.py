"""A paper: its published figures, its claims, and the sources of both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("about", "at_least", "at_most", "exponent", "overtakes")
At = Mapping[str, tuple[Any, ...]]


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
    at: At
    told: At
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
    at: At
    against: At
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


def written(at: At) -> str:
    """Write axes and values as text: `seq_len=1024 mask=none`."""
    return " ".join(f"{axis}={','.join(map(str, values))}" for axis, values in at.items())
