"""What an impl costs at a size, measured or not, with an interval and a warning where one is due."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.findings.laws import FittedLaw, law_of, predictor_of
from harness.findings.series import Point, Series
from harness.scaling.law import Law
from harness.scaling.prediction import Predictor
from harness.scaling.terms import AXES, Term

# From so many doublings outside what was measured on, a prediction is a guess.
FAR = 2.0
_NAMES = {"n": "seq_len", "d": "d_model", "h": "num_heads", "b": "batch_size"}


@dataclass(frozen=True)
class Prediction:
    """A cost, seconds or bytes, and between what it lies with 95 %; `measured` if it was, at this very size."""

    value: float
    lo: float
    hi: float
    measured: bool
    warnings: tuple[str, ...] = ()


def held_axes(points: Sequence[Point], n: int, d: int, h: int, b: int) -> list[str]:
    """The axes that the size asks of another value than the only one at the points: of them no law can say a thing."""
    held = []
    for axis, asked, values in zip(
        AXES, (n, d, h, b), zip(*(point.size for point in points), strict=True), strict=True
    ):
        (first, *others) = dict.fromkeys(values)
        if not others and asked != first:
            held.append(f"{_NAMES[axis]}={asked} was asked and only {_NAMES[axis]}={first:g} measured")
    return held


def predict_cost(fitted: FittedLaw, n: int, d: int, h: int, b: int) -> Prediction:
    """The cost at a size; the measurement's own where it was measured.

    Raises ValueError, which says why, for a size of which the law can say nothing, such as one that differs along an
    axis of which one value was measured.
    """
    for point in fitted.series.points:
        if point.size == (n, d, h, b):
            return Prediction(point.value, point.lo, point.hi, measured=True)
    pieces = [_at(one, law, fitted.expected, (n, d, h, b)) for one, law in pieces_at(fitted, n)]
    if len(pieces) == 1:
        return pieces[0]
    below, above = pieces
    between = "between the sizes measured here another law begins: the interval holds both"
    return Prediction(
        math.sqrt(below.value * above.value),
        min(below.lo, above.lo),
        max(below.hi, above.hi),
        False,
        tuple(dict.fromkeys((between, *below.warnings, *above.warnings))),
    )


def _at(one: Series, law: Law, expected: Sequence[Term], size: tuple[int, int, int, int]) -> Prediction:
    unknown = held_axes(one.points, *size)
    if unknown:
        raise ValueError("; ".join(unknown))
    predict = predictor_of(one, law, expected)
    said = predict(*size)
    if said.value <= 0:
        raise ValueError(f"the law {law} says nothing at n = {size[0]}")
    return Prediction(said.value, said.lo, said.hi, False, _warnings(one, law, predict, *size))


def pieces_at(fitted: FittedLaw, n: int) -> list[tuple[Series, Law]]:
    """The law that holds at n, with the points that it is of; two where n lies in a gap in which one gives way."""
    starts = [found.n for found in fitted.law.breaks]
    edges = [0.0, *starts, math.inf]
    parts = [tuple(point for point in fitted.series.points if lo <= point.n < hi) for lo, hi in pairwise(edges)]
    held = [i for i, points in enumerate(parts) if points and edges[i] <= n < edges[i + 1]]
    here = held[0] if held else len(parts) - 1
    chosen = [here]
    if here + 1 < len(parts) and parts[here] and n > max(point.n for point in parts[here]):
        chosen.append(here + 1)
    found = []
    for i in chosen:
        one = replace(fitted.series, points=parts[i])
        law = fitted.law if i == len(parts) - 1 else law_of(one, fitted.expected)
        if law is not None:
            found.append((one, law))
    return found


def _warnings(one: Series, law: Law, predict: Predictor, *size: float) -> tuple[str, ...]:
    said = []
    asked = dict(zip(AXES, size, strict=True))
    for axis, highest in predict.highest.items():
        factor = max(asked[axis] / highest, predict.lowest[axis] / asked[axis])
        if math.log2(factor) >= FAR:
            said.append(
                f"far outside what was measured: {_NAMES[axis]}={asked[axis]:g} is {factor:.3g} times beyond "
                f"{predict.lowest[axis]:g} to {highest:g}; take it as a guess"
            )
        values = sum(1 for _ in dict.fromkeys(point.size[AXES.index(axis)] for point in one.points))
        if factor > 1 and values == 2:
            said.append(f"{_NAMES[axis]} took 2 values only: how the cost grows with it is known from these alone")
    if not law.determined:
        said.append(f"the law is undetermined: {law.reason}")
    return tuple(said)
