"""The axes of charts: ranges, and round ticks with their units."""

import math
from collections.abc import Callable, Collection
from typing import Any

from harness.report import units

# The most measured n that ticks name. Of more, every k-th is named, and always the largest.
_MOST_SIZES = 8


def sizes(values: Collection[int]) -> dict[str, Any]:
    """A logarithmic axis that names measured n only: `{"range": [lo, hi], "ticks": [[n, text]]}`."""
    named = sorted(set(values))
    step = -(-len(named) // _MOST_SIZES)
    room = 1.25 if len(named) > 1 else 2.0
    return {
        "range": [named[0] / room, named[-1] * room],
        "ticks": [[n, str(n)] for n in named[::-1][::step][::-1]],
    }


def seconds(values: Collection[float]) -> dict[str, Any]:
    """A logarithmic axis of times that contains all `values`."""
    return _decades(values, units.seconds)


def ratios(values: Collection[float], text: Callable[[float], str]) -> dict[str, Any]:
    """A logarithmic axis with decimal ticks for any other quantity."""
    return _decades(values, text)


def octets(values: Collection[float]) -> dict[str, Any]:
    """A logarithmic axis of bytes, with ticks at powers of 2, 4 or 16."""
    lo, hi = min(values) / 1.6, max(values) * 1.6
    span = math.log2(hi / lo)
    step = 1 if span < 5 else 2 if span < 18 else 4
    first, last = math.floor(math.log2(lo) / step), math.ceil(math.log2(hi) / step)
    ticks = [2.0 ** (step * i) for i in range(first, last + 1)]
    return _frame(lo, hi, ticks, units.size)


def _decades(values: Collection[float], text: Callable[[float], str]) -> dict[str, Any]:
    lo, hi = min(values) / 1.6, max(values) * 1.6
    span = math.log10(hi / lo)
    steps = (1, 2, 5) if span < 1.8 else (1, 3) if span < 4.5 else (1,)
    ladder = [
        float(f"{m}e{e}") for e in range(math.floor(math.log10(lo)), math.ceil(math.log10(hi)) + 1) for m in steps
    ]
    return _frame(lo, hi, ladder, text)


def _frame(lo: float, hi: float, ladder: list[float], text: Callable[[float], str]) -> dict[str, Any]:
    if sum(lo <= value <= hi for value in ladder) < 2:
        # The values are close together: extend the range to the next tick on either side.
        lo = max((value for value in ladder if value <= lo), default=lo)
        hi = min((value for value in ladder if value >= hi), default=hi)
    return {"range": [lo, hi], "ticks": [[v, units.round_text(text(v))] for v in ladder if lo <= v <= hi]}
