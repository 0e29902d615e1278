"""Which impl to use at a size: the fastest by prediction, of those that fit into memory, and how sure that is."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from harness.findings.crossovers import headless
from harness.findings.laws import FittedLaw
from harness.findings.series import Setting

# A prediction's interval of 95 % reaches so many standard deviations to either side.
_REACH = 1.96
_DRAWS = 20_000
# Said of the share of draws in which the first is the fastest.
SURE, LIKELY = 0.95, 0.75


class Cost(Protocol):
    """What is known of a cost at a size, as `prediction.predict_cost` gives it: seconds or bytes."""

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


Predict = Callable[[FittedLaw, int, int, int, int], Cost]


@dataclass(frozen=True)
class Candidate:
    """One impl at the size asked for; `memory` is None where it is not known."""

    impl: str
    time: Cost
    memory: Cost | None


@dataclass(frozen=True)
class Recommendation:
    """`ranked`: those that fit, the fastest first, none where none does; `too_large`: those that do not.

    `unknown`: those of which nothing can be said there, each with the reason. `share`: in how many draws, of one, the
    first is the fastest, None where it is the only one. `ratio`, between `ratio_lo` and `ratio_hi`: how many times as
    long the second takes.
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
        """`sure`, `likely` or `a toss-up`; `the only one` without a second."""
        if self.share is None:
            return "the only one"
        return "sure" if self.share >= SURE else "likely" if self.share >= LIKELY else "a toss-up"


def recommend(
    laws: Iterable[FittedLaw], setting: Setting, size: tuple[int, int, int, int], memory: int | None, predict: Predict
) -> Recommendation:
    """What is predicted at `size` (n, d, h, b) in one setting; `memory` bounds peak bytes, at the upper end.

    A layer without heads is predicted at its one.
    """
    by_impl: dict[str, dict[str, FittedLaw]] = {}
    for law in laws:
        if law.series.setting == setting:
            by_impl.setdefault(law.series.impl, {})[law.series.metric] = law
    candidates, unknown = [], []
    for impl, own in by_impl.items():
        if "time" in own:
            try:
                candidates.append(_candidate(impl, own, size, predict))
            except ValueError as error:
                unknown.append((impl, str(error)))
    fits = [one for one in candidates if memory is None or one.memory is None or one.memory.hi <= memory]
    ranked = tuple(sorted(fits, key=lambda one: (one.time.value, one.impl)))
    too_large = tuple(one for one in candidates if one not in fits)
    if len(ranked) < 2:
        return Recommendation(ranked, too_large, tuple(unknown), None, None, None, None)
    costs = [one.time for one in ranked]
    return Recommendation(ranked, too_large, tuple(unknown), share_first_is_least(costs), *_ratio(costs[1], costs[0]))


def _candidate(
    impl: str, laws: Mapping[str, FittedLaw], size: tuple[int, int, int, int], predict: Predict
) -> Candidate:
    """Raises ValueError where the laws can say nothing of the size."""
    n, d, h, b = size
    heads = 1 if headless(impl, {point.h for point in laws["time"].series.points}) else h
    memory = predict(laws["memory"], n, d, heads, b) if "memory" in laws else None
    return Candidate(impl, predict(laws["time"], n, d, heads, b), memory)


def share_first_is_least(costs: Sequence[Cost]) -> float:
    """In what share of draws the first cost is the least: logarithms normal, with a spread of its own to each side.

    The same each time: the draws are always the same ones.
    """
    normal = np.random.default_rng(0).standard_normal((_DRAWS, len(costs)))
    down, up = (np.array([side(cost) for cost in costs]) / _REACH for side in (_down, _up))
    with np.errstate(invalid="ignore"):
        drawn = np.log([cost.value for cost in costs]) + np.where(normal < 0, normal * down, normal * up)
    return float(np.mean(np.all(drawn[:, :1] <= drawn[:, 1:], axis=1)))


def _ratio(cost: Cost, other: Cost) -> tuple[float, float, float]:
    """`cost / other` and its interval, the distances of both adding up as squares."""
    ratio = cost.value / other.value
    down, up = math.hypot(_down(cost), _up(other)), math.hypot(_up(cost), _down(other))
    return ratio, ratio * math.exp(-down), ratio * math.exp(up) if up < math.inf else math.inf


def _down(cost: Cost) -> float:
    return math.log(cost.value / cost.lo) if cost.lo > 0 else math.inf


def _up(cost: Cost) -> float:
    return math.log(cost.hi / cost.value)
