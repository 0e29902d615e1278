"""A case's rounds in pytest-benchmark's sense, and its statistics of them.

Each trial is one round. Its value is the trial's fastest sample, in seconds per call. Samples of one trial are not
independent, so counting them as rounds would understate the uncertainty. Trials are independent, and each case has a
few of them.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from harness.case import Case
from harness.summary.read import read_run
from harness.summary.trials import Trials

# Half the width of a 95 % interval, in standard errors.
_ERRORS = 1.96


def rounds_of(run: Path) -> dict[Case, list[float]]:
    """The value of every trial in a run's rows, by case, in the order they were taken."""
    fold, _ = read_run(run)
    cases = [Case(*axes) for axes in fold.cases]
    found: dict[Case, list[float]] = {}
    every, no_pulse = np.ones(len(cases), dtype=bool), np.full(len(cases), np.nan)
    for group in Trials(fold).groups(every, no_pulse):
        for number, values_s in zip(group.cases.tolist(), group.column("value_s").tolist(), strict=True):
            found[cases[number]] = values_s
    return found


def statistics_of(values_s: Sequence[float]) -> dict[str, Any]:
    """The items of `stats`, in seconds, for at least one round.

    Quartiles and outliers are defined as in pytest-benchmark.
    """
    ordered = sorted(values_s)
    middle, spread = mean(ordered), stdev(ordered) if len(ordered) > 1 else 0.0
    q1, q3 = _quartile(ordered), _quartile(ordered[::-1])
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    beyond_spread = sum(not middle - spread <= value <= middle + spread for value in ordered)
    beyond_fences = sum(not low <= value <= high for value in ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": middle,
        "stddev": spread,
        "rounds": len(ordered),
        "median": median(ordered),
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": beyond_fences,
        "stddev_outliers": beyond_spread,
        "outliers": f"{beyond_spread};{beyond_fences}",
        "ld15iqr": ordered[bisect_left(ordered, low)],
        "hd15iqr": ordered[bisect_right(ordered, high) - 1],
        "ops": len(ordered) / sum(ordered),
        "total": sum(ordered),
        "data": list(values_s),
        "iterations": 1,
    }


def statistics_of_interval(time_s: float, lo_s: float | None, hi_s: float | None, trials: int) -> dict[str, Any]:
    """The same items for a case of which only an estimate and its 95 % interval were kept.

    The estimate is close to the fastest trial's time, so it becomes `min`. For lack of other values it is also `mean`
    and `median`. The `max` is the interval's upper end, or the estimate if it has none. The `stddev` is the spread of
    trials that the interval's width implies.
    """
    hi_s = hi_s if hi_s is not None and time_s <= hi_s < math.inf else time_s
    lo_s = lo_s if hi_s > time_s and lo_s is not None and lo_s <= time_s else time_s
    rounds = max(1, trials)
    return {
        "min": time_s,
        "max": hi_s,
        "mean": time_s,
        "stddev": (hi_s - lo_s) / 2 / _ERRORS * math.sqrt(rounds),
        "rounds": rounds,
        "median": time_s,
        "iqr": hi_s - time_s,
        "q1": time_s,
        "q3": hi_s,
        "iqr_outliers": 0,
        "stddev_outliers": 0,
        "outliers": "0;0",
        "ld15iqr": time_s,
        "hd15iqr": hi_s,
        "ops": 1 / time_s,
        "total": rounds * time_s,
        "iterations": 1,
    }


def _quartile(ordered: Sequence[float]) -> float:
    """The quartile nearer to the start of `ordered`.

    For an even number of values it is the median of the first half, else an interpolation between two values.
    """
    number = len(ordered)
    if number == 1:
        return ordered[0]
    if number % 2 == 0:
        return median(ordered[: number // 2])
    place, left = divmod(number, 4)
    if left == 1:
        return 0.25 * ordered[place - 1] + 0.75 * ordered[place]
    return 0.75 * ordered[place] + 0.25 * ordered[place + 1]
