"""Find bimodal cases, from the trials taken while the machine was quiet."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.stats.humps import FEWEST_TRIALS, find_humps, may_be_two
from harness.summary.cells import Floats, cells


def humps(times_s: Floats, calm: NDArray[np.bool_], each: Mapping[str, Floats]) -> dict[str, list[Any]]:
    """Columns of a line that describe bimodal timing.

    `times_s`, the time of each trial, and `each`, the counters recorded with it, are (cases, N). Only the quiet trials
    (`calm`) count: a disturbed machine would make the times of any layer bimodal.
    """
    number = len(times_s)
    columns: dict[str, list[Any]] = {
        "humps": [1 if enough else None for enough in (calm.sum(axis=1) >= FEWEST_TRIALS).tolist()],
        "hump_fast_s": [None] * number,
        "hump_slow_s": [None] * number,
        "hump_cause": [None] * number,
    }
    for case in np.flatnonzero(may_be_two(times_s, calm)).tolist():
        chosen = calm[case]
        found = find_humps(times_s[case, chosen].tolist(), _by_trial({k: v[case, chosen] for k, v in each.items()}))
        if found is not None and found.count == 2:
            columns["humps"][case] = 2
            columns["hump_fast_s"][case], columns["hump_slow_s"][case] = found.fast_s, found.slow_s
            columns["hump_cause"][case] = found.cause
    return columns


def _by_trial(columns: Mapping[str, Floats]) -> Sequence[Mapping[str, float | None]]:
    return [
        dict(zip(columns, trial, strict=True))
        for trial in zip(*(cells(column) for column in columns.values()), strict=True)
    ]
