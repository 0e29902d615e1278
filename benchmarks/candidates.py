"""Ways to make one number of a case's trials: one of what a trial saw, and one of what the trials gave.

`lower half` is a trimmed mean: the slower half is left out, since noise mostly adds. `time_s` is `min` within a trial
and `low quantile` between them.
"""

import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from harness.core.stats.interval import low_quantile

Candidate = Callable[[Sequence[float]], float]


def _quantile(share: float) -> Candidate:
    return lambda values: float(np.quantile(values, share))


def _lower_half(values: Sequence[float]) -> float:
    return statistics.mean(sorted(values)[: math.ceil(len(values) / 2)])


def _low_quantile(values: Sequence[float]) -> float:
    return float(low_quantile(np.sort(values)))


WITHIN: dict[str, Candidate] = {
    "min": min,
    "quantile 5 %": _quantile(0.05),
    "quantile 25 %": _quantile(0.25),
    "lower half": _lower_half,
    "median": statistics.median,
    "mean": statistics.fmean,
}
BETWEEN: dict[str, Candidate] = {
    "min": min,
    "low quantile": _low_quantile,
    "quartile": _quantile(0.25),
    "lower half": _lower_half,
    "median": statistics.median,
    "mean": statistics.fmean,
}
