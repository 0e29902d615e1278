"""Whole measurements on synthetic noise, stopping rule included: how often the interval contains the true value."""

from dataclasses import dataclass

import numpy as np
from core.stats.noise import Draw

from harness.core.config import Precision
from harness.core.stats.estimate import confirmed
from harness.core.stats.interval import LEVEL, half_widths, log_distances_to_ends, low_quantile, suffice


@dataclass(frozen=True)
class Coverage:
    """The share of intervals that hold the quantile that is estimated, and the trials taken for one, on average."""

    share: float
    trials: float


def coverage(
    draw: Draw, scale: float, limits: Precision, repeats: int, seed: int = 0, truth: float | None = None
) -> Coverage:
    """Of `repeats` measurements that stop as a sweep does. The true value is that of many draws, unless `truth` is."""
    rng = np.random.default_rng(seed)
    if truth is None:
        truth = float(np.quantile(draw(rng, (100_000, 4), scale), LEVEL))
    rounds = limits.max_rounds
    logs = draw(rng, (repeats, rounds), scale)
    narrow = np.zeros((repeats, rounds), dtype=bool)
    holds = np.zeros((repeats, rounds), dtype=bool)
    for number in range(limits.min_rounds, rounds + 1):
        ordered = np.sort(logs[:, :number], axis=1)
        value, (down, up) = low_quantile(ordered), log_distances_to_ends(ordered)
        narrow[:, number - 1] = np.expm1(np.maximum(down, up)) <= limits.target
        holds[:, number - 1] = (value - down <= truth) & (truth <= value + up)
    stops = np.array([_stop(list(row), limits) for row in narrow])
    return Coverage(float(holds[np.arange(repeats), stops - 1].mean()), float(stops.mean()))


def is_precise(narrow: list[bool], limits: Precision) -> bool:
    """Whether the interval is narrow and confirmed. `narrow` says whether it was narrow after each trial so far."""
    return narrow[-1] and confirmed(list(enumerate(narrow, start=1)), len(narrow), len(narrow), limits)


def stops_after(logs: np.ndarray, quiet: np.ndarray, limits: Precision) -> int:
    """How many of the trials (N,) are taken, of which some are `quiet` (N,)."""
    so_far = np.cumsum(quiet)
    counted = [int(count) if suffice(count, i) else i for i, count in enumerate(so_far, start=1)]
    widths = half_widths(np.exp(logs).tolist(), quiet.tolist(), limits.min_rounds)
    narrow = [
        width <= limits.target and count >= limits.min_rounds for width, count in zip(widths, so_far, strict=True)
    ]
    looks = list(zip(counted, narrow, strict=True))
    for number in range(limits.min_rounds, len(logs)):
        if looks[number - 1][1] and confirmed(looks[:number], number, counted[number - 1], limits):
            return number
    return len(logs)


def _stop(narrow: list[bool], limits: Precision) -> int:
    looks = (number for number in range(limits.min_rounds, len(narrow)) if is_precise(narrow[:number], limits))
    return next(looks, len(narrow))
