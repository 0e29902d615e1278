"""Predict a layer's cost at any size, check such predictions at the largest n, and recommend a layer for a size.

A prediction has a 95 % interval and warnings. The recommended layer is the fastest by prediction that fits into memory.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Protocol

import numpy as np

from harness.analysis.crossovers import layers_without_heads
from harness.analysis.fitted_laws import FittedLaw, law_of, laws_of_layer, predictor_of
from harness.analysis.series import Point, Setting, point_of, series_groups, series_of, setting_of
from harness.fit.laws import AXES
from harness.fit.piecewise import Predictor
from harness.results.table import CaseResult

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


def fixed_axes(points: Sequence[Point], n: int, d: int, h: int, b: int) -> list[str]:
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
        unknown = fixed_axes(points, *size)
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
        more = _further_warnings(points, asked["n"]) if set(predict.highest) == {"n"} else ""
        said.append(f"the law is undetermined: {predict.law.reason}{more}")
    return tuple(said)


def _further_warnings(points: Sequence[Point], asked: float) -> str:
    """Advice on what to measure to determine the law: the next two doublings of n.

    The second one is left out if it exceeds the requested n.
    """
    sizes = sorted({point.n for point in points})
    beyond = [n for n in (2 * sizes[-1], 4 * sizes[-1]) if n <= max(asked, 2 * sizes[-1])]
    number = f"{len(sizes)} value{'s' if len(sizes) > 1 else ''} of seq_len"
    return f"; {number} from {sizes[0]} to {sizes[-1]}: measure seq_len={','.join(map(str, beyond))} too"


METRICS = ("time", "memory")
# The largest n is predicted from all n up to this share of it.
SHARE = 1 / 4


@dataclass(frozen=True)
class HeldOut:
    """One case of the largest n, predicted from n ≤ `fitted_to`. Costs are in seconds or bytes."""

    impl: str
    setting: Setting
    metric: str
    n: int
    d: int
    h: int
    b: int
    fitted_to: int
    predicted: float
    lo: float
    hi: float
    measured: float

    @property
    def error(self) -> float:
        """The signed relative error of the prediction."""
        return self.predicted / self.measured - 1

    @property
    def covered(self) -> bool:
        """Whether the measured cost lies in the prediction interval."""
        return self.lo <= self.measured <= self.hi


@dataclass(frozen=True)
class Score:
    """How well one metric was predicted.

    `error` is the median over layers of each layer's median error. The intervals of `covered` of the `predictions`
    contain the measured cost.
    """

    metric: str
    error: float
    covered: int
    predictions: int


def hold_out(lines: Iterable[CaseResult]) -> list[HeldOut]:
    """Predict every case of each layer's largest n with laws fitted to a quarter of this n and below.

    This is the prediction check. Larger sizes influence nothing, not even which terms the laws consist of.
    """
    return [one for members in series_groups(lines).values() for one in _hold_out_layer(members)]


def _hold_out_layer(lines: Sequence[CaseResult]) -> list[HeldOut]:
    done = [line for line in lines if any(point_of(line, metric) for metric in METRICS)]
    largest = max((line.seq_len for line in done), default=0)
    kept = [line for line in done if line.seq_len <= SHARE * largest]
    top = [line for line in done if line.seq_len == largest]
    if not kept:
        return []
    found = []
    for fitted in laws_of_layer(kept):
        one = fitted.series
        measured = series_of(top, one.metric) if one.metric in METRICS else None
        if measured is None or len({point.n for point in one.points}) < 2:
            continue
        forecast = Forecast(fitted)
        fitted_to = max(point.n for point in one.points)
        for point in measured.points:
            size = (point.n, point.d, point.h, point.b)
            try:
                said = forecast(*size)
            except ValueError:  # no prediction, for a width measured only at the largest n, for example
                continue
            ends = (said.value, said.lo, said.hi, point.value)
            found.append(HeldOut(one.impl, one.setting, one.metric, *size, fitted_to, *ends))
    return found


def scores(held_out: Sequence[HeldOut]) -> list[Score]:
    """Return the score of each metric that was predicted."""
    return [
        _score(metric, of_metric) for metric in METRICS if (of_metric := [h for h in held_out if h.metric == metric])
    ]


def _score(metric: str, held_out: Sequence[HeldOut]) -> Score:
    by_impl: dict[str, list[float]] = {}
    for one in held_out:
        by_impl.setdefault(one.impl, []).append(abs(one.error))
    error = median(median(errors) for errors in by_impl.values())
    return Score(metric, error, sum(one.covered for one in held_out), len(held_out))


# A 95 % prediction interval reaches this many standard deviations to each side.
_REACH = 1.96
_DRAWS = 20_000
# Thresholds for `how_sure`, on the share of draws in which the first layer is the fastest.
SURE, LIKELY = 0.95, 0.75


class Cost(Protocol):
    """A cost at a size in seconds or bytes, as returned by `predict_cost`."""

    @property
    def value(self) -> float: ...
    @property
    def lo(self) -> float: ...
    @property
    def hi(self) -> float: ...
    @property
    def measured(self) -> bool: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


Size = tuple[int, int, int, int]  # n, d, h, b
Predict = Callable[[FittedLaw, int, int, int, int], Cost]


@dataclass(frozen=True)
class Candidate:
    """One layer at the requested size; `memory` is None if it is not known."""

    impl: str
    time: Cost
    memory: Cost | None


@dataclass(frozen=True)
class Recommendation:
    """The layers ranked by predicted time at a size.

    The layers that fit into memory are `ranked`, the fastest first. Those that do not fit are `too_large`. Layers of
    which time or memory cannot be predicted are `unknown`, each with the reason. The first layer is the fastest in a
    fraction `share` of random draws. The second layer takes `ratio` times as long as the first, with an interval from
    `ratio_lo` to `ratio_hi`. These four numbers are None if fewer than two layers fit.
    """

    ranked: tuple[Candidate, ...]
    too_large: tuple[Candidate, ...]
    unknown: tuple[tuple[str, str], ...]
    share: float | None
    ratio: float | None
    ratio_lo: float | None
    ratio_hi: float | None

    @property
    def how_sure(self) -> str:
        """`sure`, `likely` or `a toss-up`; `the only one` if no second layer fits."""
        if self.share is None:
            return "the only one"
        return "sure" if self.share >= SURE else "likely" if self.share >= LIKELY else "a toss-up"


def recommend(
    lines: Iterable[CaseResult],
    laws: Iterable[FittedLaw],
    setting: Setting,
    size: Size,
    memory: int | None,
    predict: Predict,
) -> Recommendation:
    """Rank the layers of a run at `size` (n, d, h, b) in one setting, by predicted time.

    A layer fits if the upper end of its predicted peak bytes is at most `memory`. Layers with unknown memory then do
    not count as fitting. Without `memory`, all layers fit. `lines` are those of the run and `laws` are fitted to them.
    Layers that failed at exactly this size are not predicted. A layer without heads is predicted with one head.
    """
    of_run = list(lines)
    without = layers_without_heads(of_run)
    failed = _failed(of_run, setting, size, without)
    by_impl: dict[str, dict[str, FittedLaw]] = {}
    for law in laws:
        if law.series.setting == setting:
            by_impl.setdefault(law.series.impl, {})[law.series.metric] = law
    candidates, unknown = [], list(failed.items())
    for impl, own in by_impl.items():
        if "time" in own and impl not in failed:
            try:
                candidates.append(_candidate(impl, own, _sizes_for(impl, size, without), predict))
            except ValueError as error:
                unknown.append((impl, str(error)))
    if memory is not None:
        unfit = "its memory is not known, nor whether it fits"
        unknown += [(one.impl, unfit) for one in candidates if one.memory is None]
    fits = [one for one in candidates if memory is None or (one.memory is not None and one.memory.hi <= memory)]
    ranked = tuple(sorted(fits, key=lambda one: (one.time.value, one.impl)))
    too_large = tuple(one for one in candidates if one.memory is not None and one not in fits)
    if len(ranked) < 2:
        return Recommendation(ranked, too_large, tuple(unknown), None, None, None, None)
    costs = [one.time for one in ranked]
    return Recommendation(
        ranked, too_large, tuple(unknown), probability_first_is_least(costs), *_ratio(costs[1], costs[0])
    )


def _failed(
    lines: Iterable[CaseResult], setting: Setting, size: Size, without_heads: Collection[str]
) -> dict[str, str]:
    """The failures at this size, by layer."""
    return {
        line.impl: f"{line.status} there" + (f": {line.reason}" if line.reason else "")
        for line in lines
        if line.status != "ok"
        and setting_of(line) == setting
        and (line.seq_len, line.d_model, line.num_heads, line.batch_size) == _sizes_for(line.impl, size, without_heads)
    }


def _sizes_for(impl: str, size: Size, without_heads: Collection[str]) -> Size:
    n, d, h, b = size
    return n, d, 1 if impl in without_heads else h, b


def _candidate(impl: str, laws: Mapping[str, FittedLaw], size: Size, predict: Predict) -> Candidate:
    """The layer's prediction. Raises ValueError if the laws cannot predict the size."""
    memory = predict(laws["memory"], *size) if "memory" in laws else None
    return Candidate(impl, predict(laws["time"], *size), memory)


def probability_first_is_least(costs: Sequence[Cost]) -> float:
    """Return the share of random draws in which the first cost is the smallest.

    Log costs are drawn from a normal distribution with a separate spread to each side. Ties are shared, so two equal
    costs get equal shares, as do two costs without bounds. The random seed is fixed, so the result is reproducible.
    """
    normal = np.random.default_rng(0).standard_normal((_DRAWS, len(costs)))
    down, up = (np.array([side(cost) for cost in costs]) / _REACH for side in (_rounded_down, _rounded_up))
    with np.errstate(invalid="ignore"):
        drawn = np.log([cost.value for cost in costs]) + np.where(normal < 0, normal * down, normal * up)
    least = drawn == drawn.min(axis=1, keepdims=True)
    return float(np.mean(least[:, 0] / least.sum(axis=1)))


def _ratio(cost: Cost, other: Cost) -> tuple[float, float, float]:
    """`cost / other` and its interval. The distances to the ends of both intervals add up as squares."""
    ratio = cost.value / other.value
    down, up = math.hypot(_rounded_down(cost), _rounded_up(other)), math.hypot(_rounded_up(cost), _rounded_down(other))
    return ratio, ratio * math.exp(-down), ratio * math.exp(up) if up < math.inf else math.inf


def _rounded_down(cost: Cost) -> float:
    return math.log(cost.value / cost.lo) if cost.lo > 0 else math.inf


def _rounded_up(cost: Cost) -> float:
    return math.log(cost.hi / cost.value)
