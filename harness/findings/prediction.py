"""What an impl costs at a size, measured or not, with an interval and a warning where one is due."""

import math
from dataclasses import dataclass, replace

from harness.findings.laws import FittedLaw, law_of, predictor_of
from harness.findings.series import Series
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


def held_axes(fitted: FittedLaw, n: int, d: int, h: int, b: int) -> list[str]:
    """The axes that the size asks of another value than the only one measured: of them the law can say nothing."""
    asked = dict(zip(AXES, (n, d, h, b), strict=True))
    return [
        f"{_NAMES[axis]}={asked[axis]} was asked and only {_NAMES[axis]}={value:g} measured"
        for axis, value in _only_value(fitted).items()
        if asked[axis] != value
    ]


def predict_cost(fitted: FittedLaw, n: int, d: int, h: int, b: int) -> Prediction:
    """The cost at a size; the measurement's own where it was measured.

    Raises ValueError, which names the axis, for a size that differs along an axis of which one value was measured.
    """
    unknown = held_axes(fitted, n, d, h, b)
    if unknown:
        raise ValueError("; ".join(unknown))
    for point in fitted.series.points:
        if point.size == (n, d, h, b):
            return Prediction(point.value, point.lo, point.hi, measured=True)
    one, law = _piece(fitted, n)
    predict = predictor_of(one, law, fitted.expected)
    said = predict(n, d, h, b)
    return Prediction(said.value, said.lo, said.hi, False, _warnings(law, predict, n, d, h, b))


def _piece(fitted: FittedLaw, n: int) -> tuple[Series, Law]:
    """The law that holds at n: below the largest sizes' break another one does, of the points there alone."""
    below = [b.n for b in fitted.law.breaks if n < b.n]
    if below:
        points = tuple(point for point in fitted.series.points if point.n < below[0])
        one = replace(fitted.series, points=points)
        law = law_of(one, fitted.expected)
        if law is not None:
            return one, law
    return fitted.series, fitted.law


def _only_value(fitted: FittedLaw) -> dict[str, float]:
    points = fitted.series.points
    return {axis: points[0].size[i] for i, axis in enumerate(AXES) if len({point.size[i] for point in points}) == 1}


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
