"""`comparison.csv`: one row per pair."""

import math
from typing import TYPE_CHECKING, Any

from harness.case import AXES
from harness.gate.compared import Compared, Comparison

if TYPE_CHECKING:
    import pandas as pd

# The axes are the head's. `base` is the impl of the base side; it equals the head's when two commits of one layer are
# compared.
COLUMNS = (
    *AXES,
    *("verdict", "ratio", "ratio_lo", "ratio_hi", "blocks", "smallest_detectable", "control", "base", "reason"),
    *("memory_verdict", "memory_ratio", "flops_verdict", "flops_ratio"),
)


def table(comparison: Comparison) -> "pd.DataFrame":
    """The pairs as a tidy DataFrame. Ratios are head over base; `smallest_detectable` is a fraction, 0.05 for 5 %."""
    import pandas as pd

    rows = [_row(one, comparison.control) for one in comparison.compared]
    return pd.DataFrame(rows, columns=list(COLUMNS)).convert_dtypes()


def _row(one: Compared, control: str) -> dict[str, Any]:
    time = one.time
    found = time.evidence if time is not None else None
    return {
        **one.head.as_dict(),
        "verdict": one.verdict,
        "ratio": _finite(found.ratio) if found else None,
        "ratio_lo": _finite(found.lo) if found else None,
        "ratio_hi": _finite(found.hi) if found else None,
        "blocks": time.blocks if time else 0,
        "smallest_detectable": _finite(time.smallest_detectable) if time else None,
        "control": control,
        "base": one.base.impl,
        "reason": (time.reason if time else one.reason) or None,
        "memory_verdict": one.memory.verdict,
        "memory_ratio": one.memory.ratio,
        "flops_verdict": one.flops.verdict,
        "flops_ratio": one.flops.ratio,
    }


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
