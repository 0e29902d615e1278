"""What an impl costs at a size, measured or not, with an interval and a warning where one is due."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.findings.laws import FittedLaw, law_of, predictor_of
from harness.findings.series import Point, Series
from harness.scaling.law import Law
from harness.scaling.prediction import Predictor
from harness.scaling.terms import AXES

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
    one, law = piece_at(fitted, n)
    unknown = held_axes(one.points, n, d, h, b)
    if unknown:
        raise ValueError("; ".join(unknown))
    predict = predictor_of(one, law, fitted.expected)
    said = predict(n, d, h, b)
    if said.value <= 0:
        raise ValueError(f"the law {law} says nothing at n = {n}")
    return Prediction(said.value, said.lo, said.hi, False, _warnings(law, predict, n, d, h, b))


def piece_at(fitted: FittedLaw, n: int) -> tuple[Series, Law]:
    """The law that holds at n with the points that it is of: beyond a break those beyond it, below it those below."""
    if not fitted.law.breaks:
        return fitted.series, fitted.law
    start = fitted.law.breaks[-1].n
    above = tuple(point for point in fitted.series.points if point.n >= start)
    below = tuple(point for point in fitted.series.points if point.n < start)
    if n < start and below:
        one = replace(fitted.series, points=below)
        law = law_of(one, fitted.expected)
        if law is not None:
            return one, law
    return replace(fitted.series, points=above), fitted.law


def _warnings(law: Law, predict: Predictor, *size: float) -> tuple[str, ...]:
    said = []
    asked = dict(zip(AXES, size, strict=True))
    for axis, highest in predict.highest.items():
        factor = max(asked[axis] / highest, predict.lowest[axis] / asked[axis])
        if math.log2(factor) >= FAR:
            said.append(
                f"far outside what was measured: {_NAMES[axis]}={asked[axis]:g} is {factor:.3g} times beyond "
                f"{predict.lowest[axis]:g} to {highest:g}; take it as a guess"
            )
    if not law.determined:
        said.append(f"the law is undetermined: {law.reason}")
    return tuple(said)
