"""Recommend a layer for a size: the fastest by prediction that fits into memory, and how sure that is."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from harness.findings.crossovers import headless
from harness.findings.laws import FittedLaw
from harness.findings.series import Setting, setting_of
from harness.summary import Line

# A 95 % prediction interval reaches this many standard deviations to each side.
_REACH = 1.96
_DRAWS = 20_000
# Thresholds for `how_sure`, on the share of draws in which the first layer is the fastest.
SURE, LIKELY = 0.95, 0.75


class Cost(Protocol):
    """A cost at a size in seconds or bytes, as returned by `prediction.predict_cost`."""

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
    lines: Iterable[Line],
    laws: Iterable[FittedLaw],
    setting: Setting,
    size: Size,
    memory: int | None,
    predict: Predict,
) -> Recommendation:
    """Rank the layers of a run at `size` (n, d, h, b) in one setting.

    A layer fits if the upper end of its predicted peak bytes is at most `memory`. Layers with unknown memory then do
    not count as fitting. Without `memory`, all layers fit. `lines` are those of the run and `laws` are fitted to them.
    Layers that failed at exactly this size are not predicted. A layer without heads is predicted with one head.
    """
    of_run = list(lines)
    without = headless(of_run)
    failed = _failed(of_run, setting, size, without)
    by_impl: dict[str, dict[str, FittedLaw]] = {}
    for law in laws:
        if law.series.setting == setting:
            by_impl.setdefault(law.series.impl, {})[law.series.metric] = law
    candidates, unknown = [], list(failed.items())
    for impl, own in by_impl.items():
        if "time" in own and impl not in failed:
            try:
                candidates.append(_candidate(impl, own, _asked_of(impl, size, without), predict))
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
    return Recommendation(ranked, too_large, tuple(unknown), share_first_is_least(costs), *_ratio(costs[1], costs[0]))


def _failed(lines: Iterable[Line], setting: Setting, size: Size, without_heads: Collection[str]) -> dict[str, str]:
    """The failures at this size, by layer."""
    return {
        line.impl: f"{line.status} there" + (f": {line.reason}" if line.reason else "")
        for line in lines
        if line.status != "ok"
        and setting_of(line) == setting
        and (line.seq_len, line.d_model, line.num_heads, line.batch_size) == _asked_of(line.impl, size, without_heads)
    }


def _asked_of(impl: str, size: Size, without_heads: Collection[str]) -> Size:
    n, d, h, b = size
    return n, d, 1 if impl in without_heads else h, b


def _candidate(impl: str, laws: Mapping[str, FittedLaw], size: Size, predict: Predict) -> Candidate:
    """The layer's prediction. Raises ValueError if the laws cannot predict the size."""
    memory = predict(laws["memory"], *size) if "memory" in laws else None
    return Candidate(impl, predict(laws["time"], *size), memory)


def share_first_is_least(costs: Sequence[Cost]) -> float:
    """Return the share of random draws in which the first cost is the smallest.

    Log costs are drawn from a normal distribution with a separate spread to each side. Ties are shared, so two equal
    costs get equal shares, as do two costs without bounds. The random seed is fixed, so the result is reproducible.
    """
    normal = np.random.default_rng(0).standard_normal((_DRAWS, len(costs)))
    down, up = (np.array([side(cost) for cost in costs]) / _REACH for side in (_down, _up))
    with np.errstate(invalid="ignore"):
        drawn = np.log([cost.value for cost in costs]) + np.where(normal < 0, normal * down, normal * up)
    least = drawn == drawn.min(axis=1, keepdims=True)
    return float(np.mean(least[:, 0] / least.sum(axis=1)))


def _ratio(cost: Cost, other: Cost) -> tuple[float, float, float]:
    """`cost / other` and its interval. The distances to the ends of both intervals add up as squares."""
    ratio = cost.value / other.value
    down, up = math.hypot(_down(cost), _up(other)), math.hypot(_up(cost), _down(other))
    return ratio, ratio * math.exp(-down), ratio * math.exp(up) if up < math.inf else math.inf


def _down(cost: Cost) -> float:
    return math.log(cost.value / cost.lo) if cost.lo > 0 else math.inf


def _up(cost: Cost) -> float:
    return math.log(cost.hi / cost.value)
