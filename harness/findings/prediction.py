"""The cost of a layer at any size, measured or not, with an interval and warnings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from harness.findings.laws import FittedLaw, law_of, predictor_of
from harness.findings.series import Point
from harness.scaling.prediction import Predictor
from harness.scaling.terms import AXES

# This many doublings or more outside the measured sizes, a prediction is a guess.
FAR = 2.0
_NAMES = {"n": "seq_len", "d": "d_model", "h": "num_heads", "b": "batch_size"}


@dataclass(frozen=True)
class Prediction:
    """A cost in seconds or bytes with its 95 % interval. `measured` says whether exactly this size was measured."""

    value: float
    lo: float
    hi: float
    measured: bool
    warnings: tuple[str, ...] = ()


def held_axes(points: Sequence[Point], n: int, d: int, h: int, b: int) -> list[str]:
    """Return a message for each axis that has one value at the points and another in the requested size.

    No law can predict the cost along such an axis.
    """
    held = []
    for axis, asked, values in zip(
        AXES, (n, d, h, b), zip(*(point.size for point in points), strict=True), strict=True
    ):
        (first, *others) = dict.fromkeys(values)
        if not others and asked != first:
            held.append(f"{_NAMES[axis]}={asked} was asked and only {_NAMES[axis]}={first:g} measured")
    return held


def predict_cost(fitted: FittedLaw, n: int, d: int, h: int, b: int) -> Prediction:
    """Return the cost at a size. For several sizes of one series use `Forecast`.

    Raises ValueError in the same cases as `Forecast`.
    """
    return Forecast(fitted)(n, d, h, b)


class Forecast:
    """Predicts one series at any size. Everything derived from the series is computed once."""

    def __init__(self, fitted: FittedLaw) -> None:
        self._fitted = fitted
        # Each law holds from one edge up to the next.
        self._edges = [0.0, *(found.n for found in fitted.law.breaks), math.inf]
        self._parts = [
            tuple(point for point in fitted.series.points if lo <= point.n < hi) for lo, hi in pairwise(self._edges)
        ]
        self._known: dict[int, Predictor] = {}
        self._rising = _rising(fitted.series.points)

    def __call__(self, n: int, d: int, h: int, b: int) -> Prediction:
        """Return the cost at a size.

        This is the measured cost if exactly this size was measured. Otherwise it is the prediction, but no less than
        the lower bound of any smaller size. Raises ValueError with the reason if the law cannot predict the size. One
        such size differs along an axis of which only one value was measured.
        """
        for point in self._fitted.series.points:
            if point.size == (n, d, h, b):
                return Prediction(point.value, point.lo, point.hi, measured=True)
        said = [self._by(part, (n, d, h, b)) for part in self._at(n)]
        one = said[0] if len(said) == 1 else self._either(*said)
        least = self._least(n, d, h, b)
        return replace(one, value=max(one.value, least), lo=max(one.lo, least), hi=max(one.hi, least))

    def _least(self, n: int, d: int, h: int, b: int) -> float:
        """The highest lower end of the intervals of all smaller sizes; 0 if no smaller size was measured.

        Only sizes with the same number of heads count. More heads share the same width and may cost less.
        """
        smaller = (point for point in self._rising if point.n <= n and point.d <= d and point.h == h and point.b <= b)
        return max((point.lo for point in smaller), default=0.0)

    @staticmethod
    def _either(below: Prediction, above: Prediction) -> Prediction:
        between = "between the sizes measured here another law begins: the interval holds both"
        return Prediction(
            math.sqrt(below.value * above.value),
            min(below.lo, above.lo),
            max(below.hi, above.hi),
            False,
            tuple(dict.fromkeys((between, *below.warnings, *above.warnings))),
        )

    def _at(self, n: int) -> list[int]:
        """The index of the part that contains n. In the gap before the next part, also the index of that part."""
        here = next(i for i, (lo, hi) in enumerate(pairwise(self._edges)) if lo <= n < hi)
        last = len(self._parts) - 1
        return [here, here + 1] if here < last and n > max(point.n for point in self._parts[here]) else [here]

    def _predictor(self, part: int) -> Predictor:
        """The predictor of one part.

        The last part has the series' own law. All points of the series show how far to trust it.
        """
        if part not in self._known:
            fitted, last = self._fitted, part == len(self._parts) - 1
            one = fitted.series if last else replace(fitted.series, points=self._parts[part])
            law = fitted.law if last else law_of(one, fitted.expected)
            if law is None:
                raise ValueError(f"no law is known of n below {self._edges[part + 1]:g}")
            self._known[part] = predictor_of(one, law, fitted.expected)
        return self._known[part]

    def _by(self, part: int, size: tuple[int, int, int, int]) -> Prediction:
        points, predict = self._parts[part], self._predictor(part)
        unknown = held_axes(points, *size)
        if unknown:
            raise ValueError("; ".join(unknown))
        said = predict(*size)
        if said.value <= 0:
            raise ValueError(f"the law {predict.law} says nothing at n = {size[0]}")
        return Prediction(said.value, said.lo, said.hi, False, _warnings(points, predict, *size))


def _rising(points: Sequence[Point]) -> list[Point]:
    """The points beyond the largest n that was seen to cost more than a larger size. Up to there, costs may fall."""
    sizes, ends = np.array([point.size for point in points]), np.array([point.hi for point in points])
    fell = 0.0
    for point, size in zip(points, sizes, strict=True):
        larger = (sizes >= size).all(axis=1) & (sizes[:, AXES.index("h")] == point.h)
        if (ends[larger] < point.lo).any():
            fell = max(fell, point.n)
    return [point for point in points if point.n > fell]


def _warnings(points: Sequence[Point], predict: Predictor, *size: float) -> tuple[str, ...]:
    said = []
    asked = dict(zip(AXES, size, strict=True))
    for axis, highest in predict.highest.items():
        factor = max(asked[axis] / highest, predict.lowest[axis] / asked[axis])
        if math.log2(factor) >= FAR:
            said.append(
                f"far outside what was measured: {_NAMES[axis]}={asked[axis]:g} is {factor:.3g} times beyond "
                f"{predict.lowest[axis]:g} to {highest:g}; take it as a guess"
            )
        values = len({point.size[AXES.index(axis)] for point in points})
        if factor > 1 and values == 2:
            said.append(f"{_NAMES[axis]} took 2 values only: how the cost grows with it is known from these alone")
    if not predict.law.determined:
        # If several axes vary, another axis than n may leave the law undetermined.
        more = _more(points, asked["n"]) if set(predict.highest) == {"n"} else ""
        said.append(f"the law is undetermined: {predict.law.reason}{more}")
    return tuple(said)


def _more(points: Sequence[Point], asked: float) -> str:
    """Advice on what to measure to determine the law: the next two doublings of n.

    The second one is left out if it exceeds the requested n.
    """
    sizes = sorted({point.n for point in points})
    beyond = [n for n in (2 * sizes[-1], 4 * sizes[-1]) if n <= max(asked, 2 * sizes[-1])]
    number = f"{len(sizes)} value{'s' if len(sizes) > 1 else ''} of seq_len"
    return f"; {number} from {sizes[0]} to {sizes[-1]}: measure seq_len={','.join(map(str, beyond))} too"
