"""The law of each series: its fitted terms, how sure they are, and how well the law predicts the points."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.fit.integer_laws import exact_pieces
from harness.fit.laws import Floats, Law, Range, Sizes, Term, exponent_of, smoothed_weights, spreads_of
from harness.fit.piecewise import Predictor, fit_pieces, predictor
from harness.results.table import CaseResult

if TYPE_CHECKING:
    import pandas as pd


from harness.analysis.series import COUNTS, METRICS, Point, Series, series_groups, series_of


@dataclass(frozen=True)
class FittedLaw:
    """The law of one series.

    Both `exponent_n` and `exponent_d` are scaling exponents at the largest size, None if the axis did not vary. The
    terms of the layer's exact counts are `expected`. The prediction check predicts the largest n from a quarter of it
    and below. Its median relative error is `holdout_error`, None if the check was not possible.
    """

    series: Series
    law: Law
    expected: tuple[Term, ...]
    exponent_n: Range | None
    exponent_d: Range | None
    holdout_error: float | None = None

    @property
    def cv_error(self) -> float | None:
        """The relative error of predicting sizes left out of the fit; 0 for an exact law."""
        return self.law.cv_error


def fit_laws(lines: Iterable[CaseResult]) -> list[FittedLaw]:
    """Return the law of every series whose costs are above 0, in the order of the lines, then of `METRICS`."""
    return [fitted for members in series_groups(lines).values() for fitted in laws_of_layer(members)]


def laws_of_layer(lines: Sequence[CaseResult]) -> Iterator[FittedLaw]:
    """Yield the law of each series of one layer in one setting."""
    counted = {metric: found for metric in COUNTS if (found := _with_law(lines, metric, ()))}
    expected = _expected(
        [law for _, law in counted.values() if law.exact], heads=len({line.num_heads for line in lines}) > 1
    )
    for metric in METRICS:
        found = counted.get(metric) or _with_law(lines, metric, expected)
        if found:
            yield _fitted(*found, expected)


def _expected(exact: Sequence[Law], heads: bool) -> tuple[Term, ...]:
    """The expected terms of a layer's time: a constant and each term of its exact counts.

    Counts leave out elementwise work. A product of n²·d FLOPs leaves n² scores per head, which the softmax processes.
    A term in n² is therefore expected too.
    """
    if not exact:
        return ()
    counted = [term for law in exact for term in law.terms if term.h >= 0]
    scores = [Term(term.n, term.log, h=int(heads), b=term.b) for term in counted if (term.n, term.d) == (2, 1)]
    return tuple(dict.fromkeys([Term(), *counted, *scores]))


def _with_law(lines: Sequence[CaseResult], metric: str, expected: Sequence[Term]) -> tuple[Series, Law] | None:
    one = series_of(lines, metric)
    law = law_of(one, expected) if one else None
    return (one, law) if one and law else None


def law_of(one: Series, expected: Sequence[Term] = ()) -> Law | None:
    """Return the law of a series; None if a cost is 0 or nothing was measured.

    Counts and bytes get an exact law if one exists, else a fitted one. Time is fitted with the terms of the layer's
    exact counts, as long as these explain it.
    """
    points = [point for point in one.points if point.value > 0]
    if len(points) < len(one.points) or not points:
        return None
    sizes = sizes_of(points)
    values = np.array([point.value for point in points], dtype=float)
    if one.metric != "time":
        law = exact_pieces(sizes, [int(point.value) for point in points])
        return law or fit_pieces(sizes, values)
    return fit_pieces(sizes, values, spreads_of_points(points), expected)


def predictor_of(one: Series, law: Law, expected: Sequence[Term]) -> Predictor:
    """Return the predictor of the series at other sizes."""
    values = np.array([point.value for point in one.points], dtype=float)
    known = spreads_of_points(one.points) if one.metric == "time" else None
    found = predictor(sizes_of(one.points), values, known, expected if one.metric == "time" else (), law)
    # FLOPs and depth have no phases, so no other phase can dominate beyond the measured sizes.
    return replace(found, drift=0.0) if law.exact and one.metric in COUNTS else found


def sizes_of(points: Sequence[Point]) -> Sizes:
    """Return the sizes of the points."""
    return Sizes.of(point.size for point in points)


def spreads_of_points(points: Sequence[Point]) -> Floats:
    """Return the relative standard error of each point."""
    return smoothed_weights(
        spreads_of(np.array([point.lo for point in points]), np.array([point.hi for point in points]))
    )


def largest_size(points: Sequence[Point]) -> Point:
    """Return the point with the largest n. Ties go to the larger width, then heads, then batch size."""
    return max(points, key=lambda point: point.size)


def _fitted(one: Series, law: Law, expected: tuple[Term, ...]) -> FittedLaw:
    at = largest_size(one.points).size
    return FittedLaw(one, law, expected, exponent_of(law, "n", *at), exponent_of(law, "d", *at))


def laws_table(laws: Iterable[FittedLaw]) -> "pd.DataFrame":
    """Return the laws as a tidy DataFrame: `laws.csv`."""
    import pandas as pd

    return pd.DataFrame([_row(fitted) for fitted in laws], columns=list(COLUMNS))


COLUMNS = (
    *("impl", "mode", "dtype", "device", "mask", "metric", "law", "terms"),
    *("exponent_n", "exponent_n_lo", "exponent_n_hi", "exponent_d", "exponent_d_lo", "exponent_d_hi"),
    *("cv_error", "holdout_error", "determined"),
    *("reason", "exact", "breaks", "points", "seq_len_min", "seq_len_max", "threads", "allocator"),
    *("padding_fraction", "kv_len"),
)


def _row(fitted: FittedLaw) -> dict[str, Any]:
    one, law = fitted.series, fitted.law
    setting = one.setting
    sizes = [point.n for point in one.points]
    return {
        "impl": one.impl,
        "mode": setting.mode,
        "dtype": setting.dtype,
        "device": setting.device,
        "mask": setting.mask,
        "metric": one.metric,
        "law": str(law),
        "terms": json.dumps(
            {str(c.term): {"value": c.value, "lo": c.lo, "hi": _finite(c.hi)} for c in law.coefficients},
            ensure_ascii=False,
        ),
        **_range("exponent_n", fitted.exponent_n),
        **_range("exponent_d", fitted.exponent_d),
        "cv_error": law.cv_error,
        "holdout_error": fitted.holdout_error,
        "determined": law.determined,
        "reason": law.reason or None,
        "exact": law.exact,
        "breaks": json.dumps([b.n for b in law.breaks]) if law.breaks else None,
        "points": len(one.points),
        "seq_len_min": min(sizes),
        "seq_len_max": max(sizes),
        "threads": setting.threads,
        "allocator": setting.allocator,
        "padding_fraction": setting.padding_fraction,
        "kv_len": setting.kv_len,
    }


def _range(name: str, value: Range | None) -> dict[str, float | None]:
    ends = (value.value, value.lo, value.hi) if value else (None, None, None)
    return dict(zip((name, f"{name}_lo", f"{name}_hi"), ends, strict=True))


def _finite(value: float) -> float | None:
    """The value, or None if infinite: JSON has no infinity, so an unbounded end is null."""
    return value if math.isfinite(value) else None
