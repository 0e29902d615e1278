"""Two calls timed in turns in one process: their ratio, where both meet the same machine and the same memory."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A turn of one call spans so long, and calls at least so often.
_TURN_S = 0.02


@dataclass(frozen=True)
class Ratio:
    """The first's time over the second's: the median over pairs of turns, and between what it lies with 95 %."""

    value: float
    lo: float
    hi: float
    first_s: float
    second_s: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.lo:.3f} to {self.hi:.3f})"


def ratio(first: Callable[[], Any], second: Callable[[], Any], pairs: int = 40) -> Ratio:
    """In turns ABBA ABBA …, so that what drifts meets both alike."""
    repeats = [_repeats(call) for call in (first, second)]
    times: list[tuple[float, float]] = []
    for pair in range(pairs):
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        took = {which: _turn((first, second)[which], repeats[which]) for which in order}
        times.append((took[0], took[1]))
    ratios = [a / b for a, b in times]
    medians = sorted(statistics.median(_drawn(ratios, draw)) for draw in range(1000))
    return Ratio(
        statistics.median(ratios),
        medians[25],
        medians[974],
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
    )


def _drawn(values: list[float], seed: int) -> list[float]:
    return random.Random(seed).choices(values, k=len(values))


def _turn(call: Callable[[], Any], repeats: int) -> float:
    """The fastest of the turn's calls: each is long enough for the clock, and an interruption hits few of them."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def _repeats(call: Callable[[], Any]) -> int:
    for _ in range(3):
        call()
    start = time.perf_counter()
    call()
    return max(3, round(_TURN_S / (time.perf_counter() - start)))
