"""Find the lines of a run that belong to a figure or a claim, and read the quantity from them."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.case import AXES
from harness.findings.crossovers import headless
from harness.findings.papers.paper import At
from harness.findings.papers.quantities import QUANTITIES, Known
from harness.scaling.crossover import gap
from harness.summary import Line


@dataclass(frozen=True)
class Measured:
    """A quantity of a line, or its ratio to that of another line.

    `known` is None if no number was measured; `ended` then says why.
    """

    line: Line
    known: Known | None
    ended: str


def measured(
    lines: Sequence[Line], quantity: str, of: str, over: str, at: At, against: At | None = None
) -> list[Measured]:
    """Return the quantity for every line of the layer `of` that matches `at`, in ascending order of n.

    If `over` names a layer, the quantity is divided by that of `over` at the same point. With `against`, the result is
    divided by the same quantity at the other values that `against` gives for some axes. Points without a line to
    divide by are left out. Layers without heads match every number of heads.
    """
    if against:
        elsewhere = measured(lines, quantity, of, over, {**at, **against})
        there = {_place(one.line, False, against): one for one in elsewhere}
        here = measured(lines, quantity, of, over, at)
        both = [(one, there.get(_place(one.line, False, against))) for one in here]
        return [_divided(one.line, one, other) for one, other in both if other is not None]
    mine = sorted((line for line in lines if line.impl == of and is_at(line, at)), key=lambda line: line.seq_len)
    if not over:
        return [Measured(line, *_known(line, quantity)) for line in mine]
    any_heads = bool({of, over} & headless(lines))
    others = {_place(line, any_heads): line for line in lines if line.impl == over}
    pairs = [(line, others.get(_place(line, any_heads))) for line in mine]
    return [_ratio(line, other, quantity) for line, other in pairs if other is not None]


def is_at(line: Line, at: At) -> bool:
    """Whether a line matches `at` on every axis named there."""
    return all(_value(line, axis) in values for axis, values in at.items())


def _value(line: Line, axis: str) -> Any:
    return line.d_model // line.num_heads if axis == "head_dim" else getattr(line, axis)


def _place(line: Line, any_heads: bool, but: Collection[str] = ()) -> tuple[Any, ...]:
    """The point of a line, without the axes `but`. With `any_heads`, the number of heads is ignored."""
    axes = (axis for axis in AXES if axis not in ("impl", "num_heads", *but))
    return (*(getattr(line, axis) for axis in axes), any_heads or "num_heads" in but or line.num_heads)


def _known(line: Line, quantity: str) -> tuple[Known | None, str]:
    known = QUANTITIES[quantity].of(line)
    return known, "" if known is not None else line.status if line.status != "ok" else "not measured"


def _ratio(line: Line, other: Line, quantity: str) -> Measured:
    mine, its = (Measured(one, *_known(one, quantity)) for one in (line, other))
    named = (replace(one, ended=one.ended and f"{one.line.impl} {one.ended}") for one in (mine, its))
    return _divided(line, *named)


def _divided(line: Line, one: Measured, other: Measured) -> Measured:
    """The ratio of two quantities, attributed to `line`. Its interval assumes independent errors."""
    if one.known is None or other.known is None:
        return Measured(line, None, ", ".join(dict.fromkeys(filter(None, (one.ended, other.ended)))))
    if min(one.known[0], other.known[0]) <= 0:
        return Measured(line, None, "nothing to divide")
    between = gap(line.seq_len, one.known, other.known)
    return Measured(line, (math.exp(between.value), math.exp(between.lo), math.exp(between.hi)), "")
