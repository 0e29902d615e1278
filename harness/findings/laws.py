"""`laws.csv`: the law of every series, exact where the costs are, fitted where they are measured."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.findings.series import COUNTS, METRICS, Point, Series, groups, series_of
from harness.scaling.exact import exact_pieces
from harness.scaling.exponent import exponent
from harness.scaling.law import Law, Range
from harness.scaling.pieces import fit_pieces
from harness.scaling.prediction import Predictor, predictor
from harness.scaling.terms import Floats, Sizes, Term
from harness.scaling.weights import spreads_of, steadied
from harness.summary import Line

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FittedLaw:
    """The law of one series; `exponent_n` and `exponent_d` at its largest sizes, None along an axis not varied.

    `expected`: the terms that the layer's exact counts are made of. `holdout_error`: the median relative error of
    predicting the largest n from a quarter of it and below, None where it cannot be tried.
    """

    series: Series
    law: Law
    expected: tuple[Term, ...]
    exponent_n: Range | None
    exponent_d: Range | None
    holdout_error: float | None = None

    @property
    def cv_error(self) -> float | None:
        """The relative error of predicting sizes left out of the fit; 0 of an exact law."""
        return self.law.cv_error


def fit_laws(lines: Iterable[Line]) -> list[FittedLaw]:
    """The law of every series with a cost above nothing, in the order of the lines, each by `METRICS`."""
    return [fitted for members in groups(lines).values() for fitted in laws_of_layer(members)]


def laws_of_layer(lines: Sequence[Line]) -> Iterator[FittedLaw]:
    """The law of each series of one impl in one setting."""
    counted = {metric: found for metric in COUNTS if (found := _with_law(lines, metric, ()))}
    expected = _expected(
        [law for _, law in counted.values() if law.exact], heads=len({line.num_heads for line in lines}) > 1
    )
    for metric in METRICS:
        found = counted.get(metric) or _with_law(lines, metric, expected)
        if found:
            yield _fitted(*found, expected)


def _expected(exact: Sequence[Law], heads: bool) -> tuple[Term, ...]:
    """What a layer's time is made of: a constant, and so much for each term of its exact counts.

    Elementwise work is not counted: a product of n²·d leaves n² scores a head, each of which softmax passes over.
    """
    if not exact:
        return ()
    counted = [term for law in exact for term in law.terms if term.h >= 0]
    scores = [Term(term.n, term.log, h=int(heads), b=term.b) for term in counted if (term.n, term.d) == (2, 1)]
    return tuple(dict.fromkeys([Term(), *counted, *scores]))


def _with_law(lines: Sequence[Line], metric: str, expected: Sequence[Term]) -> tuple[Series, Law] | None:
    one = series_of(lines, metric)
    law = law_of(one, expected) if one else None
    return (one, law) if one and law else None


def law_of(one: Series, expected: Sequence[Term] = ()) -> Law | None:
    """The series' law; None where nothing was spent at some size, or measured at none.

    Counts and bytes have an exact law where there is one; time has terms of the layer's exact counts, as long as these
    explain it.
    """
    points = [point for point in one.points if point.value > 0]
    if len(points) < len(one.points) or not points:
        return None
    sizes = sizes_of(points)
    values = np.array([point.value for point in points], dtype=float)
    if one.metric != "time":
        law = exact_pieces(sizes, [int(point.value) for point in points])
        return law or fit_pieces(sizes, values)
    return fit_pieces(sizes, values, spreads(points), expected)


def predictor_of(one: Series, law: Law, expected: Sequence[Term]) -> Predictor:
    """What predicts the series at other sizes."""
    values = np.array([point.value for point in one.points], dtype=float)
    known = spreads(one.points) if one.metric == "time" else None
    found = predictor(sizes_of(one.points), values, known, expected if one.metric == "time" else (), law)
    # Work and depth have no phases of which another might take over.
    return replace(found, drift=0.0) if law.exact and one.metric in COUNTS else found


def sizes_of(points: Sequence[Point]) -> Sizes:
    """Where the points are."""
    return Sizes.of(point.size for point in points)


def spreads(points: Sequence[Point]) -> Floats:
    """How well each point is known, as a relative standard error."""
    return steadied(spreads_of(np.array([point.lo for point in points]), np.array([point.hi for point in points])))


def largest(points: Sequence[Point]) -> Point:
    """The point with the largest n; of several the widest, then that with the most heads, then batches."""
    return max(points, key=lambda point: point.size)


def _fitted(one: Series, law: Law, expected: tuple[Term, ...]) -> FittedLaw:
    at = largest(one.points).size
    return FittedLaw(one, law, expected, exponent(law, "n", *at), exponent(law, "d", *at))


def laws_table(laws: Iterable[FittedLaw]) -> "pd.DataFrame":
    """The laws as a tidy DataFrame."""
    import pandas as pd

    return pd.DataFrame([_row(fitted) for fitted in laws], columns=list(COLUMNS))


COLUMNS = (
    *("impl", "mode", "dtype", "device", "mask", "metric", "law", "terms"),
    *("exponent_n", "exponent_n_lo", "exponent_n_hi", "exponent_d", "exponent_d_lo", "exponent_d_hi"),
    *("cv_error", "holdout_error", "determined"),
    *("reason", "exact", "breaks", "points", "seq_len_min", "seq_len_max", "threads", "allocator"),
    *("real_share", "source_len"),
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
        "real_share": setting.real_share,
        "source_len": setting.source_len,
    }


def _range(name: str, value: Range | None) -> dict[str, float | None]:
    ends = (value.value, value.lo, value.hi) if value else (None, None, None)
    return dict(zip((name, f"{name}_lo", f"{name}_hi"), ends, strict=True))


def _finite(value: float) -> float | None:
    """JSON has no infinity: an end that nothing bounds is null."""
    return value if math.isfinite(value) else None
