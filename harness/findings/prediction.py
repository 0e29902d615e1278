"""What an impl costs at a size, measured or not, with an interval and a warning where one is due."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from harness.findings.laws import FittedLaw, law_of, predictor_of
from harness.findings.series import Point
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
    """The cost at a size; for several sizes of one series see `Forecast`. Raises ValueError as it does."""
    return Forecast(fitted)(n, d, h, b)


class Forecast:
    """Predicts one series at any size; what it takes to know of the series for that is found once."""

    def __init__(self, fitted: FittedLaw) -> None:
        self._fitted = fitted
        # Each law holds from one edge to the next.
        self._edges = [0.0, *(found.n for found in fitted.law.breaks), math.inf]
        self._parts = [
            tuple(point for point in fitted.series.points if lo <= point.n < hi) for lo, hi in pairwise(self._edges)
        ]
        self._known: dict[int, Predictor] = {}
        self._rising = _rising(fitted.series.points)

    def __call__(self, n: int, d: int, h: int, b: int) -> Prediction:
        """The cost at a size; the measurement's own where it was measured, and no less than a smaller size is known to
        cost.

        Raises ValueError, which says why, for a size of which the law can say nothing, such as one that differs along
        an axis of which one value was measured.
        """
        for point in self._fitted.series.points:
            if point.size == (n, d, h, b):
                return Prediction(point.value, point.lo, point.hi, measured=True)
        said = [self._by(part, (n, d, h, b)) for part in self._at(n)]
        one = said[0] if len(said) == 1 else self._either(*said)
        least = self._least(n, d, h, b)
        return replace(one, value=max(one.value, least), lo=max(one.lo, least), hi=max(one.hi, least))

    def _least(self, n: int, d: int, h: int, b: int) -> float:
        """What the dearest smaller size costs at least: its interval's lower end; 0 where none is smaller.

        Only of as many heads: more of them share the same width, and may well cost less.
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
        """The part that n lies in; in the gap before the next one, that too."""
        here = next(i for i, (lo, hi) in enumerate(pairwise(self._edges)) if lo <= n < hi)
        last = len(self._parts) - 1
        return [here, here + 1] if here < last and n > max(point.n for point in self._parts[here]) else [here]

    def _predictor(self, part: int) -> Predictor:
        """That of one part: of the last one by its law, which all that was measured below says how far to trust."""
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
    """Those beyond the largest n that was seen to cost more than a larger size: up to there cost may fall."""
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
        # Along several axes it need not be n that leaves the law open.
        more = _more(points, asked["n"]) if set(predict.highest) == {"n"} else ""
        said.append(f"the law is undetermined: {predict.law.reason}{more}")
    return tuple(said)


def _more(points: Sequence[Point], asked: float) -> str:
    """What to measure, so that the law can be told: the next doublings of n, none beyond what was asked."""
    sizes = sorted({point.n for point in points})
    beyond = [n for n in (2 * sizes[-1], 4 * sizes[-1]) if n <= max(asked, 2 * sizes[-1])]
    number = f"{len(sizes)} value{'s' if len(sizes) > 1 else ''} of seq_len"
    return f"; {number} from {sizes[0]} to {sizes[-1]}: measure seq_len={','.join(map(str, beyond))} too"
