"""Crossovers: the sequence length n from which one layer's time or memory stays above another's, with an interval.

Two costs are compared by the logarithm of their ratio, the gap, at each n where both costs are known. Between two of
these n, costs may bend or jump, so the crossing may lie anywhere between them. Costs with steps may cross there once
more and back, unless one costs more than the other does at the larger n. Determined laws of both layers tell the gap
in between, to within the intervals of both predictions. Times follow a law where the FLOPs surely do.

The probe is timed beside every trial. If it took longer beside one layer than beside another, the machine was slower,
and so was the layer: by less or by more than the probe, which is another piece of work.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, permutations
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.core.model import formatting
from harness.core.model.sweep_axes import SETTINGS, Setting
from harness.core.results.columns import CaseResult
from harness.core.stats.interval import CONFIDENCE, NORMAL
from impls.registry import IMPLS

from .fitted_laws import FittedLaw, Laws, laws_by_series
from .laws import Floats
from .series import unlikeness

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, order=True)
class CostRatio:
    """The gap log(cost / other) at `n` and its 95 % interval. An end is infinite if nothing bounds it."""

    n: float
    value: float
    lo: float
    hi: float

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The ratio itself and its interval."""
        return math.exp(self.value), math.exp(self.lo), math.exp(self.hi)


@dataclass(frozen=True)
class Overtaking:
    """The `n` from which a cost stays above another: the last crossing up to the largest known n.

    "Surely above" means that all of the gap's 95 % interval is above 0; "surely not above", that none of it is.

    | n | lo | hi | meaning |
    | --- | --- | --- | --- |
    | a number | a number | a number | crossing near `n`: surely not above at `lo`, surely above from `hi` on |
    | 0 | 0 | 0 | above at every n |
    | None | the largest n | None | surely not above at the largest n: no crossing below it |
    | None | 0 | a number | surely above from `hi` on, at no n surely not above: noise could make a crossing |
    | None | less than the largest n | None | undecided at the largest n, surely not above at `lo` (0: nowhere) |
    """

    n: float | None
    lo: float | None
    hi: float | None


def ratio_at(
    n: float, cost: tuple[float, float, float], other: tuple[float, float, float], unlike: float = 0.0
) -> CostRatio:
    """Return the gap of two independent costs, each as `(value, lo, hi)` with a value above 0.

    Unlike conditions add the standard error `unlike` (`unlikeness`), but not to exact costs.
    The distances to the ends add up as squares. This is the method of variance estimates recovery (Zou and Donner
    2008, "Construction of confidence limits about effect measures", section 2).
    """
    (value, lo, hi), (other_value, other_lo, other_hi) = cost, other
    middle = math.log(value / other_value)
    by_conditions = NORMAL * unlike if lo < hi or other_lo < other_hi else 0.0
    down = math.hypot(log_distance(lo, value), log_distance(other_value, other_hi), by_conditions)
    up = math.hypot(log_distance(value, hi), log_distance(other_lo, other_value), by_conditions)
    return CostRatio(n, middle, middle - down, middle + up)


def unlike_conditions(groups: Iterable[Sequence[CaseResult]]) -> list[str]:
    """Sentences about layers that are compared under unlike conditions, or disturbed alike; none otherwise.

    Each group holds the lines that are compared with each other.
    """
    usual = [(line, min(group, key=lambda one: one.probe_s or math.inf)) for group in groups for line in group]
    unlike = [(unlikeness(*pair), pair[0]) for pair in usual]
    most = max((error for error, _ in unlike if error < math.inf), default=0.0)
    how = {
        "on another host": {line.impl for error, line in unlike if error == math.inf},
        f"while the machine was up to {formatting.share(math.expm1(most))} slower": {
            line.impl for error, line in unlike if 0 < error < math.inf
        },
        "while the machine was slow in most trials": {
            line.impl for error, line in unlike if error == 0 and (line.disturbed_share or 0.0) > 0.5
        },
    }
    return [
        f"{formatting.listed(sorted(impls), 'layer')} ran {conditions}: comparisons allow for that."
        for conditions, impls in how.items()
        if impls
    ]


def log_distance(small: float, large: float) -> float:
    """Return log(large / small); infinite without a bound: if `small` is 0 or `large` is infinite."""
    return math.log(large / small) if small > 0 and large < math.inf else math.inf


def find_overtaking(gaps: Sequence[CostRatio]) -> Overtaking:
    """Find where the gap rises above 0 for good. Both ends are among the n of the gaps.

    `gaps` are in ascending order of n. Raises ValueError if `gaps` is empty.
    """
    if not gaps:
        raise ValueError("a crossing needs a size at which both costs are known")
    below = max((gap.n for gap in gaps if gap.hi <= 0), default=0.0)
    if gaps[-1].lo <= 0:
        return Overtaking(None, below, None)
    unsure = [i for i, gap in enumerate(gaps) if gap.lo <= 0]
    if not unsure:
        return Overtaking(0.0, 0.0, 0.0)
    above = gaps[unsure[-1] + 1].n
    if not below:
        return Overtaking(None, 0.0, above)
    *_, (before, after) = (pair for pair in pairwise(gaps) if pair[0].value <= 0)
    share = before.value / (before.value - after.value)
    return Overtaking(before.n ** (1 - share) * after.n**share, below, above)


METRICS = ("time", "memory")


@dataclass(frozen=True)
class Crossover:
    """The `seq_len` from which `slower` costs more than `faster`; below it, `slower` costs as much or less.

    `metric` is `time` or `memory`. The largest n at which both layers were measured is `measured_to`.

    If `slower` costs more at every measured n, `seq_len` is 0. If it surely does not cost more at the largest n,
    `seq_len` is None and `seq_len_lo` equals `measured_to`.

    Otherwise the last crossing lies between `seq_len_lo` and `seq_len_hi`. These are the last n known where the 95 %
    interval of the cost ratio is at most 1, and the n from which it stays above 1, also between measured n as far as
    costs that rise with n or the laws allow. Between them, `seq_len` is a guess.

    If noise alone could make a crossing, `seq_len` is None too. Then `slower` surely costs more at every measured n
    from `seq_len_hi` on, unless `seq_len_hi` is None. It surely does not cost more at `seq_len_lo`, unless that is 0.
    """

    slower: str
    faster: str
    setting: Setting
    metric: str
    d_model: int
    num_heads: int
    batch_size: int
    seq_len: float | None
    seq_len_lo: float | None
    seq_len_hi: float | None
    measured_from: int
    measured_to: int

    @property
    def decided(self) -> bool:
        """Whether the comparison is decided: a crossing, none up to the largest n, or above at every n."""
        return self.seq_len is not None or self.seq_len_lo == self.measured_to

    @property
    def sizes(self) -> str:
        """The measured n: `n = 64 to 2048`."""
        return f"n = {' to '.join(dict.fromkeys(map(str, (self.measured_from, self.measured_to))))}"

    def __str__(self) -> str:
        """Describe the crossover in words, without the names of the layers."""
        several = self.measured_to > self.measured_from
        if self.seq_len == 0:
            return f"at every n measured, {self.sizes}" if several else f"at {self.sizes}"
        if self.seq_len is not None:
            return f"from n = {self.seq_len:.0f} ({self.seq_len_lo:.0f} to {self.seq_len_hi:.0f}) on"
        if self.seq_len_lo == self.measured_to:
            return f"not below {self.measured_to}" if several else f"not at {self.sizes}"
        if self.seq_len_hi is not None:
            return f"undecided: at every n measured from {self.seq_len_hi:.0f} on; below, within the measurement error"
        if self.seq_len_lo:
            return f"undecided: not at n = {self.seq_len_lo:.0f}; above, within the measurement error"
        return f"undecided: within the measurement error at {self.sizes}"


# Between the ends of a crossing, this many n are tried, and then between the ends found.
_TRIED, _PASSES = 8, 3
# A cost and its interval, and the same with its line.
_Known = tuple[float, float, float]
_Cost = tuple[_Known, CaseResult]
_Predict = Callable[[int, bool], list[CostRatio]]
# The factor by which intervals of ratios are widened for all pairs and sizes together comes from so many draws.
_DRAWS = 4_000
# With more ratios than this, errors of cases are not drawn. Bonferroni's inequality then bounds the factor.
_MOST_DRAWN = 3_000


def simultaneous_quantile(pairs: Sequence[tuple[int, int]], logs: Floats, deviations: Floats) -> float:
    """Return how many standard errors a ratio must be from 1 to be called above or below it: at least 1.96.

    With a probability of 95 %, no such call of any pair is wrong. Each pair holds two indices into the log costs `logs`
    (costs,), whose errors are normal with these `deviations` (costs,). A call is wrong only if the error of the ratio
    has its direction. All pairs share the errors of their cases, so the largest such error is drawn (Westfall and Young
    1993). Ratios that are surely not 1 cannot mislead and are left out step by step (Romano and Wolf 2005, "Stepwise
    multiple testing as formalized data snooping", algorithm 3.1).
    """
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    errors = np.hypot(deviations[first], deviations[second])
    is_known = np.isfinite(errors) & (errors > 0)
    first, second, errors = first[is_known], second[is_known], errors[is_known]
    gaps = logs[first] - logs[second]
    scores = np.abs(gaps) / errors
    drawn = None
    if len(gaps) <= _MOST_DRAWN:
        normal = np.random.default_rng(0).standard_normal((_DRAWS, len(logs))) * np.nan_to_num(deviations, posinf=0)
        drawn = np.where(gaps < 0, -1, 1) * (normal[:, first] - normal[:, second]) / errors
    left = np.ones(len(gaps), dtype=bool)
    quantile = NORMAL
    while left.any():
        if drawn is not None:
            step = float(np.quantile(drawn[:, left].max(axis=1), CONFIDENCE))
        else:
            step = -NormalDist().inv_cdf((1 - CONFIDENCE) / int(left.sum()))
        remaining = left & (scores <= step)
        quantile = max(step, NORMAL)
        if remaining.sum() == left.sum():
            break
        left = remaining
    return quantile


def crossovers(lines: Sequence[CaseResult], laws: Iterable[FittedLaw] = ()) -> list[Crossover]:
    """Find the crossover of every ordered pair of layers measured at a common n. The `laws` narrow their intervals.

    In at most one run in twenty, any ratio is called above or below 1 wrongly: the intervals are widened accordingly.

    Pairs are compared for each metric, setting, batch size and (d, h). A layer without heads is compared with each
    other layer at every h of that layer.
    """
    without = layers_without_heads(lines)
    groups: dict[tuple[Setting, int, int], dict[str, list[CaseResult]]] = {}
    for line, options in compared_at(lines):
        group = groups.setdefault((Setting.of(line)._replace(options=options), line.batch_size, line.d_model), {})
        group.setdefault(line.impl, []).append(line)
    compared = list(_compared(groups, without))
    factors = {metric: _factor([one for one in compared if one.metric == metric]) for metric in METRICS}
    determined = laws_by_series(law for law in laws if law.law.determined)
    found = []
    for one in compared:
        factor = factors[one.metric]
        gaps = [_widened(ratio_at(*costs), factor) for costs in one.costs]
        over = find_overtaking(gaps)
        reach = min(gap.hi - gap.lo for gap in gaps) / 2 / factor
        predict = partial(one.predicted, determined, reach)
        above = over.hi or 0.0
        if over.n:
            gaps += one.between(predict, above, factor)
        for _ in range(_PASSES if over.n else 0):
            over = find_overtaking(sorted(gaps))
            tried = {int(n) for n in np.geomspace(over.lo or 1, over.hi or 1, _TRIED)}
            for n in tried.difference(gap.n for gap in gaps):
                gaps += [_widened(gap, factor) for gap in predict(n, n < above)]
        over = find_overtaking(sorted(gaps))
        found.append(Crossover(*one.pair, over.n, over.lo, over.hi, one.costs[0][0], one.costs[-1][0]))
    return found


class _Compared(NamedTuple):
    """Two layers to compare: the first fields of a `Crossover`, and the arguments of `ratio_at` at each common n."""

    pair: tuple[str, str, Setting, str, int, int, int]
    costs: list[tuple[int, _Known, _Known, float]]
    lines: tuple[CaseResult, CaseResult]

    def predicted(self, laws: Laws, reach: float, n: int, counted: bool = True) -> list[CostRatio]:
        """The gap at an n that was not measured; empty if the laws of both layers do not tell it.

        It holds all costs within both intervals, and reaches at least as far as given to either side. Unless the FLOPs
        are `counted` exactly at this n, times may have wider steps than the measured sizes tell.
        """
        metrics = ("time", "flops") if counted and self.metric == "time" else (self.metric,)
        with suppress(KeyError, ValueError):
            one, other, *counts = (
                laws[line.impl, line.law_setting, metric].predict(n, *line.size[1:])
                for metric in metrics
                for line in self.lines
            )
            if all(count.basis for count in counts):
                middle = math.log(one.value / other.value)
                lo = min(middle - reach, -log_distance(one.lo, other.hi))
                return [CostRatio(n, middle, lo, max(middle + reach, log_distance(other.lo, one.hi)))]
        return []

    def between(self, predict: _Predict, above: float, factor: float) -> Iterator[CostRatio]:
        """The widened gaps between each n from `above` on and the next.

        Steps matter most just beyond an n. If `predict` does not tell the gap there, as counts may have steps, costs
        that rise with n have at least that of one layer at this n and the other at the next. It stands just below the
        next n, with the value there.
        """
        is_counted = all(line.flops is not None for line in self.lines)
        for (n, cost, _, unlike), (end, there, other, unlike_there) in pairwise(self.costs):
            low = _widened(ratio_at(n, cost, other, max(unlike, unlike_there)), factor)
            if n >= above and low.lo <= 0:
                told = [_widened(gap, factor) for at in {n + 1, end - 1} for gap in predict(at, is_counted)]
                value = ratio_at(end, there, other).value
                yield from told or [CostRatio(math.nextafter(end, 0), value, low.lo, math.inf)]

    @property
    def metric(self) -> str:
        return self.pair[3]


def _compared(
    groups: Mapping[tuple[Setting, int, int], Mapping[str, list[CaseResult]]], without: Collection[str]
) -> Iterator[_Compared]:
    for (setting, batch_size, d_model), members in groups.items():
        for metric in METRICS:
            costs = {impl: _costs(own, metric, impl in without) for impl, own in members.items()}
            for slower, faster in permutations(costs, 2):
                with_heads = [set(costs[impl]) for impl in (slower, faster) if impl not in without]
                for h in sorted(set.intersection(*with_heads) if with_heads else {1}):
                    of_slower, of_faster = (
                        costs[impl].get(0 if impl in without else h, {}) for impl in (slower, faster)
                    )
                    compared = []
                    for n in sorted(of_slower.keys() & of_faster.keys()):
                        (cost, line), (other_cost, other) = of_slower[n], of_faster[n]
                        compared.append((n, cost, other_cost, unlikeness(line, other)))
                    if compared:
                        pair = slower, faster, setting, metric, d_model, h, batch_size
                        yield _Compared(pair, compared, (line, other))


def _factor(compared: Iterable[_Compared]) -> float:
    """The factor by which the intervals of ratios of one metric are widened."""
    places: dict[tuple[Any, ...], int] = {}
    pairs = set()
    for one in compared:
        slower, faster, setting, _, d_model, h, batch_size = one.pair
        for n, *costs, _ in one.costs:
            at = []
            for impl, cost in zip((slower, faster), costs, strict=True):
                at.append(places.setdefault((impl, setting, d_model, h, batch_size, n, cost), len(places)))
            pairs.add((min(at), max(at)))
    known = [cost for *_, cost in places]
    middles = [(value if hi == math.inf or lo <= 0 else math.sqrt(lo * hi)) for value, lo, hi in known]
    reaches = [log_distance(lo, hi) / (2 * NORMAL) for _, lo, hi in known]
    return simultaneous_quantile(sorted(pairs), np.log(middles), np.array(reaches)) / NORMAL


def _widened(gap: CostRatio, factor: float) -> CostRatio:
    middle = gap.value
    return CostRatio(gap.n, middle, middle - factor * (middle - gap.lo), middle + factor * (gap.hi - middle))


def layers_without_heads(lines: Iterable[CaseResult]) -> set[str]:
    """Return the layers of a run that have no heads.

    The registry decides this for built-in layers. A user's layer counts as headless if it was measured only with one
    head while other layers were measured with more. If no layer was measured with more heads, this is not known, and
    the user's layer counts as having heads.
    """
    heads: dict[str, set[int]] = {}
    for line in lines:
        heads.setdefault(line.impl, set()).add(line.num_heads)
    several = any(seen != {1} for seen in heads.values())
    foreign = {impl for impl, seen in heads.items() if several and seen == {1} and impl not in IMPLS}
    return foreign | {impl for impl in heads if impl in IMPLS and not IMPLS[impl].has_heads}


def _costs(lines: Sequence[CaseResult], metric: str, headless: bool) -> dict[int, dict[int, _Cost]]:
    """One layer's costs by number of heads, 0 for a layer without heads, and by n.

    A layer without heads counts with one head; other rows of it, as a foreign table may hold, are left out. Memory is
    unknown at every size if it is at one, as in `series_of`. A cost of 0 bytes is compared as 1 byte, because a ratio
    needs numbers above 0.
    """
    if metric == "memory" and any(line.allocates_outside_torch for line in lines):
        return {}
    costs: dict[int, dict[int, _Cost]] = {}
    for line in lines:
        memory = (max(line.peak_bytes, 1.0),) * 3 if line.peak_bytes is not None else None
        cost = line.best_known_time if metric == "time" else memory
        if cost is not None and (not headless or line.num_heads == 1):
            costs.setdefault(0 if headless else line.num_heads, {})[line.seq_len] = cost, line
    return costs


_FIRST = ("slower", "faster", "metric", "d_model", "num_heads", "seq_len", "seq_len_lo", "seq_len_hi")
COLUMNS = (*_FIRST, "batch_size", *SETTINGS, "measured_from", "measured_to", "in_words")


def crossovers_table(found: Iterable[Crossover]) -> "pd.DataFrame":
    """Return the crossovers as a tidy DataFrame: `crossovers.csv`. The column `in_words` says what the numbers mean."""
    import pandas as pd

    rows = [{**vars(one), **one.setting.as_dict(), "in_words": str(one)} for one in found]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def compared_at(lines: Collection[Any]) -> Iterator[tuple[Any, str]]:
    """Yield each line with the options under which it is compared with other layers, once for each.

    They are the line's own options. A layer without a stated size along an own axis is compared with every layer that
    states one: its lines come with the options of each such line of their series and batch size.
    """
    sized = [line for line in lines if line.options != line.series.options]
    impls = {line.impl for line in sized}
    alike: dict[tuple[Any, int], dict[str, None]] = {}
    for line in sized:
        alike.setdefault((line.series, line.batch_size), {})[line.options] = None
    for line in lines:
        of_sized = {} if line.impl in impls else alike.get((line.series, line.batch_size), {})
        yield from ((line, options) for options in of_sized or [line.options])
