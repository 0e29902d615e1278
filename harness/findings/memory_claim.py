"""The verdict on a memory claim by order, from the growth of peak bytes at the largest sizes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.claims import Polynomial, Term
from harness.findings.claimed import (
    CONFIRMED,
    READ_TO,
    REFUTED,
    UNDETERMINED,
    WIDEST,
    Judgement,
    apart,
    degree,
    exponent_between,
    signed,
    size_of,
)
from harness.scaling.law import Range
from harness.summary import Line

_ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_AXES = {"n": "seq_len", "d": "d_model", "h": "num_heads"}


def judge_memory(lines: Sequence[Line], claim: Polynomial) -> Judgement:
    """Judge a claim of memory by its order, which is an upper bound.

    Along no axis may peak bytes grow faster than the claim at the largest sizes. Bytes are exact, so the measured
    exponent has no interval. The claim's exponent has one, because its constants are free. A claim is confirmed only
    if every axis in it was varied.
    """
    known = [line for line in lines if line.peak_bytes]
    if any(line.allocates_outside_torch for line in lines):
        return Judgement("", UNDETERMINED, "its peak memory is not known: it allocates memory outside torch")
    if not known:
        return Judgement("", UNDETERMINED, "its peak memory is not known")
    measured: list[str] = []
    open_questions: list[str] = []
    compared: list[str] = []
    along = {axis: _stretches(ends, axis, claim) for axis in _AXES if (ends := _ends(known, axis, claim))}
    within = any(_within_term(along.values(), term) for term in claim.terms if term.coefficient > 0)
    for axis in _AXES:
        if axis not in along:
            if degree(claim, axis):
                open_questions.append(f"{axis} was not varied by a factor of two")
            continue
        measured.append(f"{axis}^{signed(along[axis][0].slope)}")
        verdict, said = _judge_axis(axis, along[axis], within)
        if verdict == REFUTED:
            return Judgement("·".join(measured), REFUTED, said)
        (open_questions if verdict == UNDETERMINED else compared).append(said)
    if open_questions:
        return Judgement("·".join(measured), UNDETERMINED, "; ".join([*open_questions, _words(known, claim)]))
    return Judgement("·".join(measured), CONFIRMED, "; ".join([*compared, _words(known, claim)]))


@dataclass(frozen=True)
class _Stretch:
    """Growth from one size to a larger one along an axis.

    `slope` is the measured exponent, `expected` that of the claim, and `power` the axis's highest power in the claim.
    """

    axis: str
    small: Line
    large: Line
    expected: Range
    power: int

    @property
    def slope(self) -> float:
        run = math.log(getattr(self.large, _AXES[self.axis]) / getattr(self.small, _AXES[self.axis]))
        return math.log((self.large.peak_bytes or 1) / (self.small.peak_bytes or 1)) / run

    @property
    def faster(self) -> bool:
        return self.slope > self.expected.hi + READ_TO

    @property
    def like_a_term(self) -> bool:
        """Whether one term of the claim grows this fast. The other terms affect `expected` but may be absent."""
        return self.slope <= self.power + READ_TO

    @property
    def where(self) -> str:
        return " and ".join(f"{self.axis} = {getattr(line, _AXES[self.axis])}" for line in (self.small, self.large))

    def __str__(self) -> str:
        return f"{signed(self.slope)} where the claim has {signed(self.expected.value)}"


def _stretches(ends: Sequence[Line], axis: str, claim: Polynomial) -> list[_Stretch]:
    """The stretch between the two largest sizes and, with more than two sizes, two further stretches.

    These are the stretch before it and the upper half of all sizes. The upper half begins at or below the geometric
    middle and holds at least three sizes.
    """
    at = [getattr(line, _AXES[axis]) for line in ends]
    half = max((i for i in range(len(ends) - 2) if at[i] ** 2 <= at[0] * at[-1]), default=0)
    pairs = [(-2, -1), (-3, -2), (half, -1)] if len(ends) > 2 else [(-2, -1)]
    return [
        _Stretch(
            axis,
            ends[i],
            ends[j],
            exponent_between(claim, axis, size_of(ends[i]), size_of(ends[j])),
            degree(claim, axis),
        )
        for i, j in pairs
    ]


def _within_term(along: Iterable[Sequence[_Stretch]], term: Term) -> bool:
    """Whether this term alone bounds the growth along every axis. The claim's other terms may then be absent."""
    return all(
        max(stretches[0].slope, stretches[-1].slope) <= getattr(term, stretches[0].axis) + READ_TO
        for stretches in along
    )


def _judge_axis(axis: str, stretches: Sequence[_Stretch], within: bool) -> tuple[str, str]:
    """The verdict along one axis and the reason.

    A single step, such as a workspace, is not growth: some stretches do not contain it.
    """
    last, half = stretches[0], stretches[-1]
    said = f"{axis}: {last}"
    if last.slope < last.expected.lo - READ_TO and (within or not half.faster):
        return CONFIRMED, f"{said}, so it grows more slowly"
    if within:
        return CONFIRMED, f"{said}, and a term of it {axis}^{last.power}" if last.faster else said
    if last.faster and len(stretches) == 1:
        return UNDETERMINED, f"{said}: two {axis} cannot tell growth from a step"
    others = [one for one in stretches if not one.faster]
    if not others and last.like_a_term:
        return UNDETERMINED, f"{said}, and a term of it {axis}^{last.power}: larger {axis} would tell"
    if not others:
        return REFUTED, f"{said}, between {last.where}"
    if last.faster or half.faster:
        one = last if last.faster else half
        but = f"but {others[0]}, between {others[0].where}"
        return UNDETERMINED, f"{axis}: {one}, between {one.where}, {but}: larger {axis} would tell"
    allowed = last.expected
    if allowed.hi - allowed.lo > WIDEST and last.slope > allowed.lo + READ_TO:
        return UNDETERMINED, f"{said}, or anything from {allowed.lo:.2f} to {allowed.hi:.2f} as constants are"
    return CONFIRMED, said


def _ends(lines: Iterable[Line], axis: str, claim: Polynomial) -> list[Line] | None:
    """The lines along the axis, at least a factor of two apart and otherwise equal; None if there are fewer than two.

    Of several series the one with the largest claim is taken. Between closer sizes, memory allocated in blocks stays
    the same or jumps.
    """
    groups: dict[tuple[int, ...], dict[int, Line]] = {}
    others = [name for name in (*_AXES.values(), "batch_size") if name != _AXES[axis]]
    for line in lines:
        group = groups.setdefault(tuple(getattr(line, name) for name in others), {})
        group[getattr(line, _AXES[axis])] = line
    series = [[group[at] for at in found] for group in groups.values() if len(found := apart(group)) > 1]
    return max(series, key=lambda ends: (claim(*size_of(ends[-1])), size_of(ends[-1])), default=None)


def _words(lines: Iterable[Line], claim: Polynomial) -> str:
    """The smallest and largest number of measured words for each claimed word, as text."""
    ratios = [
        (line.peak_bytes or 0) / (_ITEM_BYTES[line.dtype] * line.batch_size * claim(*size_of(line)))
        for line in lines
        if claim(*size_of(line)) > 0
    ]
    if not ratios:
        return "it claims no memory"
    least, most = (f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}" for ratio in (min(ratios), max(ratios)))
    return f"{least if least == most else f'{least} to {most}'} words for each claimed"
