"""A paper: the figures it has published, what it claims, and where both are from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("about", "at_least", "at_most", "exponent", "overtakes")
At = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Figure:
    """One published number: of `of`, or of `of` over `over`. `value` is None where the case `ended` without one.

    `told` is the part of `at` that tells it from other figures of the paper; `hardware` is what it was measured on.
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
    """What a paper says of a quantity of `of`, or of `of` over `over`; `kind` is one of `KINDS`.

    With `against`, which names axes of `at` and another value of each, it is of the quantity over the same one there.

    | kind | holds where the quantity |
    | --- | --- |
    | `about` | is `wanted[0]`, within a share `within` of it |
    | `at_least`, `at_most` | is no less, no more than `wanted[0]` at every point |
    | `exponent` | grows as n to the power `wanted[0]`, within `within`, between the two largest n |
    | `overtakes` | is above the other's from an n between `wanted[0]` and `wanted[1]` on; the former 0: no later |
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
    """A published setting. `differs` says how the scale that was measured is not the published one, empty if it is.

    `changed` are the settings that were asked for otherwise than the scale has them.
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
    """`seq_len=1024 mask=none`."""
    return " ".join(f"{axis}={','.join(map(str, values))}" for axis, values in at.items())
