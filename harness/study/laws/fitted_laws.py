"""The law of each series of a run, and the laws as a table.

A law has fitted terms, says how sure they are, and predicts the costs at other sizes.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, permutations, product
from typing import TYPE_CHECKING, Any

from scipy.special import ndtri

from harness.core.model.formatting import listed
from harness.core.model.polynomial import OwnSize, Size, Term
from harness.core.model.sweep_axes import LETTERS, SETTINGS, Setting
from harness.core.results.columns import CaseResult
from harness.core.stats.interval import CONFIDENCE, NORMAL

from .enough_sizes import FEWEST_SIZES, coupled_axes, rank
from .fit_law import MOST_OFF
from .integer_laws import exact_pieces
from .laws import Law, Range, Sizes, exponent_of
from .piecewise import Predictor, fit_pieces, predictor
from .series import Point, Series, series_groups, series_of, sizes_by_letter

if TYPE_CHECKING:
    import pandas as pd

# METRICS get a law in `laws.csv`. COUNTS are exact, and their terms are those expected of a layer's time.
METRICS = ("time", "memory", "flops", "depth")
COUNTS = ("flops", "depth", "ops", "traffic")

# A prediction says nothing if its interval exceeds this factor to either side.
SAYS_NOTHING = 100.0
# This many doublings or more outside the measured sizes, a prediction is a guess.
FAR = 2.0


@dataclass(frozen=True)
class Prediction:
    """A cost in seconds or bytes with its 95 % interval. `measured` says whether exactly this size was measured.

    `basis` says what gives one number at a size that was not measured: a law or a claim that is exact at the measured
    ones. It also says if a measured time has strength borrowed from the law. It is empty otherwise.
    """

    value: float
    lo: float
    hi: float
    measured: bool
    warnings: tuple[str, ...] = ()
    basis: str = ""

    @property
    def too_uncertain(self) -> bool:
        """Whether the interval of a prediction is so wide that the prediction says nothing."""
        is_wide = self.hi > SAYS_NOTHING * self.value or self.value > SAYS_NOTHING * self.lo
        return is_wide and not self.measured


@dataclass(frozen=True)
class FittedLaw:
    """The law of one series.

    Both `exponent_n` and `exponent_d` are scaling exponents at the largest size, None if the axis did not vary.
    `own_exponents` are the scaling exponents along the layer's own axes that varied, by letter. The terms of the
    layer's exact counts are `expected`. The prediction check predicts the largest n from a quarter of it and below. Its
    median relative error is `holdout_error`, None if the check was not possible.
    """

    series: Series
    law: Law
    expected: tuple[Term, ...]
    exponent_n: Range | None
    exponent_d: Range | None
    holdout_error: float | None = None
    own_exponents: Mapping[str, Range] = field(default_factory=dict)

    def predict(self, n: int, d: int, h: int, b: int, own: OwnSize = ()) -> Prediction:
        """Return the cost at a size.

        This is the measured cost if exactly this size was measured. Otherwise it is the prediction, or the cost of a
        smaller size that surely costs more. Its lower end is no less than theirs, less the scatter. Raises ValueError
        with the reason if the law cannot predict the size. One such size differs along an axis of which only one value
        was measured.
        """
        size = n, d, h, b, own
        for point in self.series.points:
            if point.size == size:
                return Prediction(point.value, point.lo, point.hi, measured=True)
        position = self._position(size)
        pieces = [piece for piece in self.pieces if piece.after < position < piece.until]
        found = [piece.predict(*size) for piece in pieces]
        one = found[0] if len(found) == 1 else _either(*found)
        smaller = [point for point in self._rising if is_at_most(point.size, size)]
        # The highest of many measurements is high by chance. All lower ends hold together with 95 % (Bonferroni).
        reach = float(ndtri(1 - (1 - CONFIDENCE) / 2 / max(len(smaller), 1))) / NORMAL
        # Costs that rise and fall, as with the remainder of n by 64, scatter around their law.
        slack = math.exp(-NORMAL * reach * max(piece.predictor.scatter for piece in pieces))
        least = [(point.value, slack * point.value * (point.lo / point.value) ** reach) for point in smaller]
        # A wide interval does not excuse a law that misses a point by more than `MOST_OFF`.
        dearer = [value for value, end in least if one.value < max(end, (1 - MOST_OFF) * value)]
        value = max([one.value, *dearer])
        return replace(one, value=value, lo=max([one.lo, *(end for _, end in least)]), hi=max(one.hi, value))

    @cached_property
    def pieces(self) -> list["Piece"]:
        """The pieces of the series between the law's breaks. Between two pieces, both predict."""
        edges = [0.0, *(found.position for found in self.law.breaks), math.inf]
        pieces: list[Piece] = []
        for start, until in pairwise(edges):
            points = tuple(point for point in self.series.points if start <= self._position(point.size) < until)
            after = max(self._position(point.size) for point in pieces[-1].points) if pieces else 0.0
            pieces.append(Piece(self, points, after, until))
        return pieces

    def _position(self, size: Size) -> float:
        return float(self.law.position(Sizes.of([size]))[0])

    @cached_property
    def _rising(self) -> list[Point]:
        """The points beyond the largest n that costs less than a smaller one. Up to there, costs may fall."""
        pairs = permutations(self.series.points, 2)
        fell = [large.n for small, large in pairs if large.hi < small.lo and is_at_most(small.size, large.size)]
        return [point for point in self.series.points if point.n > max(fell, default=0)]


def is_at_most(small: Size, large: Size) -> bool:
    """Whether a size is at most another one along n, d and b, with the same heads and own sizes.

    More heads share the same width and may cost less, as may larger blocks.
    """
    n, d, h, b, own = large
    return small[0] <= n and small[1] <= d and small[3] <= b and (small[2], small[4]) == (h, own)


Laws = Mapping[tuple[str, Setting, str], FittedLaw]


def laws_by_series(laws: Iterable[FittedLaw]) -> Laws:
    """The cost models by layer, setting and metric."""
    return {(law.series.impl, law.series.setting, law.series.metric): law for law in laws}


@dataclass(frozen=True)
class Piece:
    """The points between two breaks of a law. The piece predicts costs between `after` and `until`, both excluded."""

    fitted: FittedLaw
    points: tuple[Point, ...]
    after: float
    until: float

    @cached_property
    def law(self) -> Law:
        """The law of the piece; the last one has the series' own."""
        if self.until == math.inf:
            return self.fitted.law
        return law_of(replace(self.fitted.series, points=self.points), self.fitted.expected)

    @cached_property
    def measured(self) -> dict[str, list[float]]:
        """The measured values along each axis, in ascending order."""
        sizes = [sizes_by_letter(point.size) for point in self.points]
        return {axis: sorted({size[axis] for size in sizes}) for axis in sizes[0]}

    @cached_property
    def predictor(self) -> Predictor:
        """All points of the series show how far to trust the law of the last piece."""
        one = self.fitted.series
        alone = one if self.until == math.inf else replace(one, points=self.points)
        return predictor_of(alone, self.law, self.fitted.expected)

    def _key(self, axis: str) -> str:
        """The key by which a size along an axis is given."""
        return LETTERS.get(axis) or f"layer.{self.fitted.series.names[axis]}"

    def predict(self, *size: Any) -> Prediction:
        if not self.law.coefficients:
            raise ValueError(f"{self.fitted.series.metric} has no law: {self.law.reason}")
        predict = self.predictor
        at = sizes_by_letter(size)
        # No law can predict the cost along an axis of which one value was measured.
        fixed = [
            f"{self._key(axis)}={at[axis]:g} was requested, and the law of {self.fitted.series.metric} knows "
            f"{self._key(axis)}={values[0]:g} only: measure it too"
            for axis, values in self.measured.items()
            if len(values) == 1 and values != [at[axis]]
        ]
        for axes in coupled_axes(Sizes.of(point.size for point in self.points)):
            wanted = tuple(at[axis] for axis in axes)
            measured = {tuple(sizes_by_letter(point.size)[axis] for axis in axes) for point in self.points}
            # A law also holds where these go on as they were measured, as in proportion or with a constant product.
            most = min(rank(measured), len(axes) - 1)
            if wanted not in measured and rank([*measured, wanted]) > most:
                keys = " with ".join(f"{self._key(axis)}={at[axis]:g}" for axis in axes)
                fixed.append(f"{keys} was requested, and these were only varied together")
        if fixed:
            raise ValueError("; ".join(fixed))
        predicted, warnings = predict(*size), self._warnings(at)
        if predicted.value <= 0:
            raise ValueError(f"the law {predict.law} says nothing at n = {size[0]}")
        beside = {axis: self._known_beside(axis, wanted) for axis, wanted in at.items()}
        steps = [why for _, why in beside.values() if why]
        is_time = self.fitted.series.metric == "time"
        known_costs = {} if is_time else {point.size: point.value for point in self.points}
        costs = [predicted.lo, predicted.hi] if is_time else [predicted.value]
        for n, d, h, b, *own in product(*(values for values, _ in beside.values())):
            corner: Any = n, d, h, b, tuple(zip([*beside][4:], own, strict=True))
            found = predict(*corner)
            costs += [known_costs[corner]] if corner in known_costs else [found.lo, found.hi]
        lo, hi = min(costs), max(costs)
        basis = ""
        if self.law.exact and self.law.determined and lo == hi and not steps:
            origin = "by the layer's claim" if self.fitted.series.declared else "law"
            basis = f"{origin}, exact at the measured sizes"
        return Prediction(predicted.value, lo, hi, False, (*warnings, *steps), basis)

    def _warnings(self, at: Mapping[str, float]) -> list[str]:
        warnings = []
        for axis, values in self.measured.items():
            low, high, key = values[0], values[-1], self._key(axis)
            factor = max(at[axis] / high, low / at[axis])
            if math.log2(factor) >= FAR:
                warnings.append(
                    f"far outside what was measured: {key}={at[axis]:g} is {factor:.3g} times beyond {low:g} to "
                    f"{high:g}; take it as a guess"
                )
            elif factor > 1 and self.law.exact and self.law.determined:
                warnings.append(f"extrapolated: exact from {key}={low:g} to {high:g} only")
            if factor > 1 and len(values) == 2 and (axis != "n" or self.law.determined):
                warnings.append(
                    f"the cost model is fitted to two values of {key} ({low:g} and {high:g}), so growth "
                    "beyond them is uncertain: measure a third"
                )
        if not self.law.determined:
            warnings.append(f"the law is undetermined: {self.law.reason}")
            if self.law.varied == ("n",):  # of several axes, another than n may leave the law undetermined
                low, *_, high = self.measured["n"]
                sizes = f"it knows {len(self.measured['n'])} values of seq_len from {low} to {high}"
                more = f",{4 * high}" if at["n"] >= 4 * high else ""
                warnings[-1] += f"; {sizes}: measure seq_len={2 * high}{more} too"
        return warnings

    def _known_beside(self, axis: str, wanted: float) -> tuple[tuple[float, ...], str]:
        """The values around the wanted one at which counts are known, and why an exact law is not known at it.

        Counts may have steps, such as ⌈n/64⌉ blocks or padding to a power of two. Only a determined exact law is known
        at other values than the measured ones, and at all between them with counts as claimed. Where the law is known,
        the wanted value is returned. Words then only say, of a time at sizes that double, which steps would not show.
        """
        values = self.measured[axis]
        is_time = self.fitted.series.metric == "time"
        is_told = self.law.exact and self.law.determined and axis not in self.law.trends
        is_open = len(values) < FEWEST_SIZES if is_time else not is_told
        if wanted in values or (is_time and all(term.without(axis) == term for term in self.law.terms)):
            return (wanted,), ""
        below = max((value for value in values if value < wanted), default=wanted)
        above = min((value for value in values if value > wanted), default=wanted)
        if is_open and (is_time or below < wanted < above):
            return (below, above), ""
        key = self._key(axis)
        step, offset, ratio = _spacing(values)
        known = f"{abs(offset)} {'more' if offset > 0 else 'less'} than " if offset else ""
        known += f"powers of {ratio} times {step}" if ratio else f"multiples of {step}"
        why = f"exact at {known} of {key} only: measure {key}={wanted:g} too, as steps may lie between"
        if is_time:
            why = why.replace("exact", "measured", 1) if ratio and below < wanted < above else ""
        lower = (wanted - offset) // step * step
        upper = -((offset - wanted) // step) * step
        if ratio and (not is_time or any(term.log for term in self.law.terms)):
            lower, upper = 0, step
            while upper + offset < wanted:
                lower, upper = upper, upper * ratio
        lower, upper = max(lower + offset, 1), upper + offset
        if wanted in (below, above) and not is_time:
            return (min(lower, below), max(upper, above)), ""
        if upper == wanted or self.fitted.series.declared:
            return (wanted,), why * is_time
        return (lower, upper), why


def _spacing(values: Sequence[float]) -> tuple[int, int, int]:
    """The step and the offset of values that are `offset + step·k`, and the least ratio of neighbours.

    The ratio is 0 unless each k is a power of two. At sizes four times apart, steps at twice them do not show.
    Tokens and one more or less, as 65, 129 and 257, tell nothing of padding: a law in n has taken it in.
    """
    sizes = [int(value) for value in values]
    # From these offsets on, the second size is 2, 4 or 8 times the first.
    offsets = [(sizes[0] * k - sizes[1]) // (k - 1) for k in (2, 4, 8)]
    for offset in (0, *offsets, sizes[0]):
        step = math.gcd(*(size - offset for size in sizes)) or 1
        multiples = [(size - offset) // step for size in sizes]
        if all(k > 0 and not k & (k - 1) for k in multiples):
            return step, offset, min(larger // k for k, larger in pairwise(multiples))
    return step, offset % step, 0


def _either(below: Prediction, above: Prediction) -> Prediction:
    between = "between the sizes measured here another law begins: the interval holds both"
    middle, lo, hi = math.sqrt(below.value * above.value), min(below.lo, above.lo), max(below.hi, above.hi)
    return Prediction(middle, lo, hi, False, tuple(dict.fromkeys((between, *below.warnings, *above.warnings))))


def fit_laws(lines: Iterable[CaseResult]) -> list[FittedLaw]:
    """Return the law of every series with a cost above 0, in the order of the lines, then of `METRICS`."""
    return [fitted for members in series_groups(lines).values() for fitted in laws_of_layer(members)]


def laws_of_layer(lines: Sequence[CaseResult]) -> Iterator[FittedLaw]:
    """Yield the law of each series of one layer in one setting."""
    counted = {metric: found for metric in COUNTS if (found := _with_law(lines, metric, ()))}
    exact = [law for _, law in counted.values() if law.exact]
    expected = _expected(exact, heads=len({line.num_heads for line in lines}) > 1)
    for metric in METRICS:
        found = counted.get(metric) or _with_law(lines, metric, expected)
        if found:
            one, law = found
            if metric == "time" and "flops" in counted and (work := counted["flops"][1]).exact:
                law = law.open_along(dict.fromkeys(work.trends, work.reason))
            size = one.largest.size
            along = {axis: exponent_of(law, axis, *size) for axis in ("n", "d", *one.names)}
            own = {axis: known for axis in one.names if (known := along[axis])}
            yield FittedLaw(one, law, expected, along["n"], along["d"], own_exponents=own)


def _expected(exact: Sequence[Law], heads: bool) -> tuple[Term, ...]:
    """The expected terms of a layer's time: a constant and each term of its exact counts.

    Counts leave out elementwise work. A product of n²·d FLOPs leaves n² scores per head, which the softmax processes.
    A term in n² is therefore expected too, and one in n·w for n·w·d FLOPs in a window w.
    """
    if not exact:
        return ()
    counted = [term for law in exact for term in law.terms if term.h >= 0]
    pairs = [term for term in counted if term.d == 1 and term.n + sum(power for _, power in term.own) == 2]
    scores = [replace(term, d=0, h=int(heads)) for term in pairs]
    return tuple(dict.fromkeys([Term(), *counted, *scores]))


def _with_law(lines: Sequence[CaseResult], metric: str, expected: Sequence[Term]) -> tuple[Series, Law] | None:
    one = series_of(lines, metric)
    if one is None or not any(point.value for point in one.points):
        return None
    law = law_of(one, expected)
    if metric == "time" and (reason := _not_comparable(lines)):
        law = replace(law, determined=False, reason=reason)
    return one, law


def _not_comparable(lines: Sequence[CaseResult]) -> str:
    """Why the times of different sizes are not comparable. Empty if they are."""
    if any(line.suspect and line.time_s for line in lines):
        return "some of its times are suspect"
    hosts = {line.host for line in lines if line.host and line.time_s}
    names = sorted({*",".join(hosts).split(",")})
    return f"{listed(names)} did not all time the same sizes" if len(hosts) > 1 else ""


def law_of(one: Series, expected: Sequence[Term] = ()) -> Law:
    """Return the law of a series. If some of its costs are 0, the law is undetermined and has no terms.

    Counts and bytes get an exact law if one exists, else a fitted one. Time is fitted with the terms of the layer's
    exact counts, as long as these explain it.
    """
    costs = one.costs
    if costs.values.any() and not costs.values.all():
        n = min(point.n for point in one.points if not point.value)
        return Law((), (), False, f"it is 0 at n = {n}, and a law needs costs above 0")
    if one.metric == "time":
        return fit_pieces(costs, expected)
    law = exact_pieces(costs.sizes, [int(point.value) for point in one.points])
    if law and law.determined and one.declared:
        return replace(law, trends={}, reason="")
    return law or fit_pieces(costs)


def predictor_of(one: Series, law: Law, expected: Sequence[Term]) -> Predictor:
    """Return the predictor of the series at other sizes."""
    return predictor(one.costs, expected if one.metric == "time" else (), law)


def laws_table(laws: Iterable[FittedLaw]) -> "pd.DataFrame":
    """Return the laws as a tidy DataFrame: `laws.csv`."""
    import pandas as pd

    return pd.DataFrame([_law_row(fitted) for fitted in laws], columns=list(LAW_COLUMNS))


_FIRST = ("mode", "dtype", "device", "mask")
LAW_COLUMNS = (
    "impl",
    *_FIRST,
    "metric",
    "law",
    "terms",
    "exponent_n",
    "exponent_n_lo",
    "exponent_n_hi",
    "exponent_d",
    "exponent_d_lo",
    "exponent_d_hi",
    "cv_error",
    "holdout_error",
    "determined",
    "reason",
    "exact",
    "breaks",
    "points",
    "seq_len_min",
    "seq_len_max",
    *(name for name in SETTINGS if name not in _FIRST),
    "own_exponents",
)


def _law_row(fitted: FittedLaw) -> dict[str, Any]:
    one, law, own = fitted.series, fitted.law, fitted.own_exponents
    sizes = [point.n for point in one.points]
    # JSON has no infinity, so an unbounded end is null.
    terms = {
        str(c.term): {"value": c.value, "lo": c.lo, "hi": c.hi if c.hi < math.inf else None} for c in law.coefficients
    }
    return {
        **one.shown_setting.as_dict(),
        **{name: getattr(law, name) for name in ("cv_error", "determined", "exact")},
        "impl": one.impl,
        "metric": one.metric,
        "law": str(law),
        "terms": json.dumps(terms, ensure_ascii=False),
        **_ends("exponent_n", fitted.exponent_n),
        **_ends("exponent_d", fitted.exponent_d),
        "own_exponents": json.dumps({axis: vars(one) for axis, one in own.items()}, ensure_ascii=False)
        if own
        else None,
        "holdout_error": fitted.holdout_error,
        "reason": law.reason or None,
        "breaks": json.dumps([b.n for b in law.breaks]) if law.breaks else None,
        "points": len(one.points),
        "seq_len_min": min(sizes),
        "seq_len_max": max(sizes),
    }


def _ends(name: str, found: Range | None) -> dict[str, float]:
    return {name: found.value, f"{name}_lo": found.lo, f"{name}_hi": found.hi} if found else {}
