"""Predict layers' costs at requested sizes, check such predictions at the largest n, and recommend a layer for a size.

A prediction has a 95 % interval and warnings. The recommended layer is the fastest by prediction that fits into memory.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from harness.core.layers.layer_lookup import near_layer
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.layer_options import NO_OPTIONS, OPTION, options_of, typed
from harness.core.model.polynomial import OwnSize, Size
from harness.core.model.sweep_axes import SETTINGS, Setting, setting_text
from harness.core.results.columns import CaseResult
from harness.core.stats.interval import NORMAL

from .crossovers import METRICS, layers_without_heads, log_distance, ratio_at, unlike_conditions
from .fitted_laws import FittedLaw, Prediction, is_at_most, laws_of_layer
from .laws import Range
from .series import Series, point_of, series_groups, series_of, unlikeness


@dataclass(frozen=True)
class SizeRequest:
    """A size (n, d, h, b), the setting in which to predict there, and values of layers' own axes by name."""

    size: tuple[int, int, int, int]
    setting: Setting
    own: Mapping[str, float] = field(default_factory=dict)

    def of_layer(self, series: Series, without_heads: Collection[str]) -> Size:
        """The size of one layer. A layer without heads was measured with one head, and is predicted with one."""
        n, d, h, b = self.size
        own = tuple(sorted((letter, self.own[name]) for letter, name in series.names.items()))
        return n, d, 1 if series.impl in without_heads else h, b, own

    def __str__(self) -> str:
        n, d, h, b = self.size
        own = "".join(f", {name} = {value:g}" for name, value in self.own.items() if name not in SETTINGS)
        setting = setting_text({**self.setting.as_dict(), **self.own})
        return f"n = {n}, d = {d}, h = {h}{own}, batch {b} ({setting})"


def sizes_requested(given: Mapping[str, Any], laws: Iterable[FittedLaw], run: object) -> list[SizeRequest]:
    """The requested sizes, one for each `seq_len`, all in one setting of the run.

    A key that is not given takes the run's value if the run has only one. Raises UsageError if a size or the setting
    is missing, invalid or ambiguous, and if the run has no times.
    """
    if given["seq_len"] is None:
        raise UsageError("seq_len is missing: give seq_len=…, or several: seq_len=1024,4096")
    held = [law.series for law in laws]
    timed = [series for series in held if series.metric == "time"]
    if not timed:
        raise UsageError(f"{run} has no times to predict from")
    wanted, options = _own_values(run, given["options"], timed)
    settings = (
        series.setting._replace(kv_len=dict(point.own).get("m", 0)) for series in timed for point in series.points
    )
    setting = _setting(run, settings, {**given, "options": options}).of_any_source
    there = [series for series in timed if series.setting == setting]
    if given.get("impl"):  # the sizes of other layers do not matter
        there = [series for series in there if series.impl in given["impl"]] or there
    points = [point for series in there for point in series.points]
    d = _one_value("d_model", given["d_model"], {point.d for point in points})
    # Layers without heads are measured at one head.
    heads = [{point.h for point in series.points} for series in there]
    several = [of_layer for of_layer in heads if of_layer != {1}]
    h = _one_value("num_heads", given["num_heads"], set().union(*several) or {1})
    if d % h:
        raise UsageError(f"d_model={d} is not divisible by num_heads={h}")
    b = _one_value("batch_size", given["batch_size"], {point.b for point in points})
    known: dict[str, set[float]] = {}
    impls = given.get("impl") or {series.impl for series in held}
    for series in held:  # a layer without any time has counts along its own axes
        for point in series.points if series.setting == setting and series.impl in impls else ():
            for letter, value in point.own:
                known.setdefault(series.names[letter], set()).add(value)
    if given.get("kv_len"):
        wanted["kv_len"] = given["kv_len"]
    keys = {name: name if name in SETTINGS else f"{OPTION}{name}" for name in known}
    own = {name: _one_value(keys[name], wanted.get(name), values) for name, values in known.items()}
    return [SizeRequest((n, d, h, b), setting, own) for n in given["seq_len"]]


def _own_values(run: object, options: str | None, timed: Sequence[Series]) -> tuple[dict[str, float], str | None]:
    """The given values of axes that are sizes of the layers, by name, and the other options; None if none is given.

    Raises UsageError for a value that is no size, and for an option that the run lacks while it has others.
    """
    if options is None:
        return {}, None
    names = {name for series in timed for name in series.names.values() if name not in SETTINGS}
    known = sorted(f"{OPTION}{name}" for name in names.union(*(options_of(one.setting.options) for one in timed)))
    for name in options_of(options):
        if known and (key := f"{OPTION}{name}") not in known:
            raise UsageError(f"{run} has no {key}{did_you_mean(key, known)}")
    given = {name: value for name, value in options_of(options).items() if name in names}
    for name, value in given.items():
        if type(value) not in (int, float) or value <= 0:
            raise UsageError(f"layer.{name}={value} is no size: give a number above 0")
    others = "+".join(part for part in options.split("+") if part.partition("=")[0] not in given)
    has_none = any(series.setting.options == NO_OPTIONS for series in timed)
    return given, others or (NO_OPTIONS if has_none else None)


def _one_value(name: str, given: Any, known: Collection[float]) -> Any:
    """The given value, or the only value in the run. Raises UsageError if the run has several."""
    if given is not None:
        return given
    if len(known) > 1:
        values = sorted(known)
        raise UsageError(f"the run has {name}={','.join(map(str, values))}: choose one, such as {name}={values[0]}")
    return next(iter(known))


def _setting(run: object, known: Iterable[Setting], given: Mapping[str, Any]) -> Setting:
    """The one setting that matches the given keys. Raises UsageError if none or several match."""
    left = list(dict.fromkeys(known))
    wanted = {name: value for name, value in given.items() if name in SETTINGS and value is not None}
    if any(setting.mode == "forward" for setting in left):
        wanted.setdefault("mode", "forward")
    if wanted.get("mode") == "decode" and wanted.get("mask") == "none":
        del wanted["mask"]  # as in a sweep, where decoding is causal: a decoded token comes last
    for name in SETTINGS:
        values = list(map(str, sorted({getattr(setting, name) for setting in left})))
        if name in wanted:
            left = [setting for setting in left if _is_value(name, getattr(setting, name), wanted[name])]
            if not left and name == "options":
                has = ", ".join(map(typed, values))
                raise UsageError(f"{run} has no times for {typed(wanted[name])}; it has {has}")
            if not left:
                has = f"it has {name}={','.join(values)}"
                raise UsageError(f"{run} has no times for {name}={wanted[name]}; {has}")
        elif len(values) > 1:
            raise UsageError(f"{run} has {name}={','.join(values)}: choose one, such as {name}={values[0]}")
    return left[0]


def _is_value(name: str, value: Any, text: Any) -> bool:
    """Whether the text stands for the value: `0` for 0.0. Cost models hold for sources of any length."""
    if name == "kv_len":
        return bool(value) == bool(text)
    try:
        return bool(type(value)(text) == value)
    except ValueError:
        return False


def laws_requested(
    names: Sequence[str] | None, laws: Iterable[FittedLaw], setting: Setting, run: object
) -> list[FittedLaw]:
    """The laws of the named layers in a setting, or of all layers if none is named.

    Raises UsageError for a layer without a law.
    """
    there = [law for law in laws if law.series.setting == setting]
    known = list(dict.fromkeys(law.series.impl for law in there))
    for name in names or ():
        if name not in known:
            raise UsageError(f"{name} is not measured in {run}{near_layer(name, known)}")
    return [law for name in names or known for law in there if law.series.impl == name]


def predict_each(
    laws: Iterable[FittedLaw], where: SizeRequest, lines: Sequence[CaseResult]
) -> tuple[list[tuple[FittedLaw, Prediction]], dict[str, str]]:
    """Each law's prediction at a size, and by layer why it has none or why the size may be beyond it.

    `lines` are those of the run.
    """
    found = []
    unknown: dict[str, str] = {}
    without_heads = layers_without_heads(lines)
    for law in laws:
        impl = law.series.impl
        size = where.of_layer(law.series, without_heads)
        try:
            found.append((law, law.predict(*size)))
        except ValueError as error:
            unknown.setdefault(impl, str(error))
        of_layer = [line for line in lines if line.impl == impl and line.law_setting == where.setting]
        if why := _why_unreliable(of_layer, size):
            unknown[impl] = why
    return found, unknown


def _why_unreliable(lines: Sequence[CaseResult], size: Size) -> str:
    """Why no law of one layer is to be relied on at a size; empty if nothing speaks against it.

    The layer failed there or at a smaller size, is incorrect anywhere, or has a time that cannot be right. Of a size
    that was measured, failures at others say nothing.
    """
    is_measured = any(line.size == size for line in lines)
    for line in lines:
        place = f"at n={line.seq_len} d={line.d_model}"
        if line.suspect:
            return f"its time {place} is suspect: {line.suspect}"
        reaches = line.status not in ("ok", "unsupported") and is_at_most(line.size, size) and not is_measured
        if line.status == "incorrect" or reaches or (line.status != "ok" and line.size == size):
            return f"{line.status} {place}" + (f": {line.reason}" if line.reason else "")
    return ""


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
    own: OwnSize = ()

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
    contain the measured cost. Their median width is `width`, the upper end divided by the lower one.
    """

    metric: str
    error: float
    covered: int
    predictions: int
    width: float


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
    found = []
    for fitted in laws_of_layer(kept) if kept else ():
        one = fitted.series
        measured = series_of(top, one.metric) if one.metric in METRICS else None
        if measured is None or len({point.n for point in one.points}) < 2:
            continue
        for point in measured.points:
            try:
                predicted = fitted.predict(*point.size)
            except ValueError:  # no prediction, for a width measured only at the largest n, for example
                continue
            case = one.impl, one.setting, one.metric, *point.size[:4], one.largest.n
            found.append(HeldOut(*case, predicted.value, predicted.lo, predicted.hi, point.value, point.own))
    return found


def scores(held_out: Sequence[HeldOut]) -> list[Score]:
    """Return the score of each metric that was predicted."""
    found = []
    for metric in METRICS:
        of_metric = [one for one in held_out if one.metric == metric]
        by_impl: dict[str, list[float]] = {}
        for one in of_metric:
            by_impl.setdefault(one.impl, []).append(abs(one.error))
        if by_impl:
            error = median(median(errors) for errors in by_impl.values())
            width = median(one.hi / one.lo if one.lo > 0 else math.inf for one in of_metric)
            found.append(Score(metric, error, sum(one.covered for one in of_metric), len(of_metric), width))
    return found


_DRAWS = 20_000
# Thresholds for `how_sure`, on the share of draws in which the first layer is the fastest.
SURE, LIKELY = 0.95, 0.75


@dataclass(frozen=True)
class Candidate:
    """One layer at the requested size; `memory` is None if it is not known."""

    impl: str
    time: Prediction
    memory: Prediction | None

    def fits(self, limit: int | None) -> bool:
        """Whether the layer surely fits into this many bytes. Any layer fits if there is no limit."""
        return limit is None or (self.memory is not None and self.memory.hi <= limit)


@dataclass(frozen=True)
class Recommendation:
    """The layers ranked by predicted time at a size.

    The layers that fit into memory are `ranked`, the fastest first; those too uncertain to predict come last. Layers
    that do not fit are `too_large`. Layers of which time or memory cannot be predicted are `unknown`, each with the
    reason. Each ranked layer is the fastest in a fraction of random draws, one of `shares`. The second layer takes
    `ratio` times as long as the first. There is no share and no ratio if fewer than two layers fit. `unlike` tells
    which layers were measured under unlike conditions.
    """

    ranked: tuple[Candidate, ...]
    too_large: tuple[Candidate, ...]
    unknown: tuple[tuple[str, str], ...]
    shares: tuple[float, ...] = ()
    ratio: Range | None = None
    unlike: Sequence[str] = ()

    @property
    def share(self) -> float | None:
        """The share of draws in which the first layer is the fastest; None if fewer than two layers fit."""
        return self.shares[0] if self.shares else None

    @property
    def is_open(self) -> bool:
        """Whether anything that is said beside the times may change which layer is the fastest."""
        return bool(self.unlike) or any(one.time.warnings for one in self.ranked)

    @property
    def how_sure(self) -> str:
        """`sure`, `likely` or `too close to call`; `the only one` if no second layer fits."""
        if self.share is None:
            return "the only one"
        if self.share >= SURE and not self.is_open:
            return "sure"
        return "likely" if self.share >= LIKELY else "too close to call"


# Sizes of calls, each with its weight: how frequent such calls are.
Mix = Sequence[tuple[float, SizeRequest]]


def recommend(lines: Sequence[CaseResult], laws: Sequence[FittedLaw], mix: Mix, memory: int | None) -> Recommendation:
    """Rank the layers of a run by the predicted time of a call, which is a mean over a mix of several sizes.

    A layer fits if the upper end of its predicted peak bytes is at most `memory` at each size. Layers with unknown
    memory then do not count as fitting. Without `memory`, all layers fit. `lines` are those of the run and `laws` are
    fitted to them. Layers whose laws are not to be relied on there, as after a failure at a smaller size, are not
    ranked.
    """
    sizes = [_candidates(lines, laws, where) for _, where in mix]
    unknown = {impl: reason for _, reasons, _ in sizes for impl, reason in reasons.items()}
    impls = dict.fromkeys(impl for there, _, _ in sizes for impl in there if impl not in unknown)
    for there, _, _ in sizes:
        unknown |= {impl: "it has no law of time at a size of the mix" for impl in impls if impl not in there}
    weights = [weight for weight, _ in mix]
    candidates = [_mean([there[impl] for there, _, _ in sizes], weights) for impl in impls if impl not in unknown]
    if memory is not None:
        without_memory = (one.impl for one in candidates if one.memory is None)
        unknown |= dict.fromkeys(without_memory, "it has no law of memory, so whether it fits is not known")
    fitting = (one for one in candidates if one.fits(memory))
    ranked = sorted(fitting, key=lambda one: (one.time.too_uncertain, one.time.value, one.impl))
    too_large = tuple(one for one in candidates if one.memory is not None and not one.fits(memory))
    found = tuple(ranked), too_large, tuple(unknown.items())
    if len(ranked) < 2:
        return Recommendation(*found)
    first, second = ((one.time.value, one.time.lo, one.time.hi) for one in ranked[:2])
    known_by = [[decisive[one.impl] for one in ranked] for _, _, decisive in sizes]
    unlike = [[unlikeness(of_size[0], line) for line in of_size] for of_size in known_by]
    most_unlike = [max(of_layer) for of_layer in zip(*unlike, strict=True)]
    shares = probabilities_of_least([one.time for one in ranked], most_unlike)
    ratio = Range(*ratio_at(0, second, first, most_unlike[1]).ratio)
    return Recommendation(*found, shares, ratio, unlike_conditions(known_by))


def _candidates(
    lines: Sequence[CaseResult], laws: Iterable[FittedLaw], where: SizeRequest
) -> tuple[dict[str, Candidate], dict[str, str], dict[str, CaseResult]]:
    """The layers at one size, why others are unknown there, and the line that tells the conditions of each."""
    fitted = [law for law in laws if law.series.setting == where.setting and law.series.metric in METRICS]
    predicted, unknown = predict_each(fitted, where, lines)
    without = layers_without_heads(lines)
    sizes = {law.series.impl: where.of_layer(law.series, without) for law in fitted}
    timed = [line for line in lines if line.time_s and line.law_setting == where.setting]
    timed.sort(key=lambda line: (line.size == sizes.get(line.impl), line.size))
    decisive = {line.impl: line for line in timed}
    costs = {(law.series.impl, law.series.metric): cost for law, cost in predicted}
    candidates = {}
    for (impl, metric), time in costs.items():
        if metric == "time" and impl not in unknown:
            line = decisive[impl]
            if time.measured and line.time_in_law_s is not None and (known := line.best_known_time):
                time = Prediction(*known, True, time.warnings, "smoothed")
            candidates[impl] = Candidate(impl, time, costs.get((impl, "memory")))
    return candidates, unknown, decisive


def _mean(candidates: Sequence[Candidate], weights: Sequence[float]) -> Candidate:
    """A layer over several sizes: its mean time, and the memory of the size that may need most.

    The ends of the interval are means too, since a law errs alike at all sizes.
    """
    if len(candidates) == 1:
        return candidates[0]
    times = [one.time for one in candidates]
    value, lo, hi = np.average([(time.value, time.lo, time.hi) for time in times], axis=0, weights=weights).tolist()
    warnings = dict.fromkeys(warning for time in times for warning in time.warnings)
    needed = [one.memory for one in candidates if one.memory is not None]
    most = max(needed, key=lambda memory: memory.hi) if len(needed) == len(candidates) else None
    bases = {time.basis for time in times}
    basis = times[0].basis if len(bases) == 1 else ""
    mean = Prediction(value, lo, hi, all(time.measured for time in times), tuple(warnings), basis)
    return Candidate(candidates[0].impl, mean, most)


def probabilities_of_least(costs: Sequence[Prediction], unlike: float | Sequence[float] = 0.0) -> tuple[float, ...]:
    """Return for each cost the share of random draws in which it is the smallest.

    Unlike conditions add the standard error `unlike` to the log of each cost (`unlikeness`).
    Log costs are drawn from normal distributions around the middle of each interval. With a separate spread to each
    side, a cost with a long interval downwards would be the smallest far too often. Ties are shared, so two equal costs
    get equal shares, as do two costs without bounds. The random seed is fixed, so the result is reproducible.
    """
    normal = np.random.default_rng(0).standard_normal((_DRAWS, len(costs)))
    down = np.array([log_distance(cost.lo, cost.value) for cost in costs])
    up = np.array([log_distance(cost.value, cost.hi) for cost in costs])
    with np.errstate(invalid="ignore"):
        middle = np.log([cost.value for cost in costs]) + np.where(np.isfinite(down + up), (up - down) / 2, 0.0)
        drawn = middle + normal * np.hypot((down + up) / (2 * NORMAL), unlike)
    least = drawn == drawn.min(axis=1, keepdims=True)
    return tuple(map(float, np.mean(least / least.sum(axis=1, keepdims=True), axis=0)))
