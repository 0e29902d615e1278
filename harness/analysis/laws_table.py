"""`laws.csv`: the cost models of a run as a table."""

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.analysis.fitted_laws import FittedLaw
from harness.fit.laws import Range
from harness.sweep_axes import SETTINGS

if TYPE_CHECKING:
    import pandas as pd


def laws_table(laws: Iterable[FittedLaw]) -> "pd.DataFrame":
    """Return the laws as a tidy DataFrame: `laws.csv`."""
    import pandas as pd

    return pd.DataFrame([_row(fitted) for fitted in laws], columns=list(COLUMNS))


_FIRST = ("mode", "dtype", "device", "mask")
COLUMNS = (
    *("impl", *_FIRST, "metric", "law", "terms"),
    *("exponent_n", "exponent_n_lo", "exponent_n_hi", "exponent_d", "exponent_d_lo", "exponent_d_hi"),
    *("cv_error", "holdout_error", "determined"),
    *("reason", "exact", "breaks", "points", "seq_len_min", "seq_len_max"),
    *(name for name in SETTINGS if name not in _FIRST),
    "own_exponents",
)


def _row(fitted: FittedLaw) -> dict[str, Any]:
    one, law, own = fitted.series, fitted.law, fitted.own_exponents
    sizes = [point.n for point in one.points]
    # JSON has no infinity, so an unbounded end is null.
    terms = {
        str(c.term): {"value": c.value, "lo": c.lo, "hi": c.hi if c.hi < math.inf else None} for c in law.coefficients
    }
    return {
        **one.setting.as_dict(),
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
