"""The time intervals of a table's rows, as bars on one logarithmic scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.page.curves import time_band
from harness.summary import Line

_LEFT, _RIGHT = 6.0, 154.0


@dataclass(frozen=True)
class Bar:
    """Start, point and end of a bar, in the units of its picture. `lo` and `hi` are None without an interval."""

    lo: float | None
    at: float
    hi: float | None


def bars(lines: Sequence[Line]) -> list[Bar | None]:
    """A bar for each line, None for a line without a time."""
    bands = [time_band(line) for line in lines]
    ends = [end for band in bands if band for end in band if end > 0]
    values = [line.time_s for line in lines if line.time_s is not None] + ends
    if not values:
        return [None for _ in lines]
    low, high = math.log(min(values)), math.log(max(values))

    def place(value: float) -> float:
        share = (math.log(value) - low) / (high - low) if high > low else 0.5
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)

    return [
        None
        if line.time_s is None
        else Bar(place(max(band[0], math.exp(low))), place(line.time_s), place(band[1]))
        if band
        else Bar(None, place(line.time_s), None)
        for line, band in zip(lines, bands, strict=True)
    ]
