"""The noise floor, from an A/A run: how far two measurements of the same thing differ.

Any difference between two measurements of the same case is noise. A slow-down that is no larger cannot be told from
noise. Measurements come in blocks: those of one case, taken side by side in the same rounds.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Noise alone exceeds the noise floor once in twenty comparisons.
CONFIDENCE = 0.95
# A slow-down is visible if it exceeds the noise floor four times in five, with noise in either direction.
POWER = 0.8
_DRAWS = 1000


@dataclass(frozen=True)
class Floor:
    """The noise floor as shares: 0.05 is a slow-down of 5 %. `lo` and `hi` are None with a single block.

    `floor` is exp(q) − 1, where q is the 95 % quantile of |log ratio| over all pairs of measurements within a block. A
    slow-down of exactly `floor` is seen half of the time, and one of `visible` four times in five. The result rests on
    `ratios` pairs from `blocks` independent blocks.
    """

    floor: float
    lo: float | None
    hi: float | None
    visible: float
    ratios: int
    blocks: int


def noise_floor(blocks: Sequence[Sequence[float]]) -> Floor:
    """The noise floor from blocks of times, in any unit. Raises ValueError if no block holds two times.

    The interval is the 95 % percentile bootstrap over blocks, because pairs within a block share measurements and are
    not independent. A calibration has 18 blocks of three. In simulations with normal, exponential and unequal noise,
    the interval then contains the true quantile 8 to 9 times in ten. The true quantile lies above it more often than
    below: values that never occurred cannot be drawn. With fewer than 14 pairs the quantile is the largest ratio.
    """
    ratios = [pairs for block in blocks if (pairs := distances(block))]
    if not ratios:
        raise ValueError("a noise floor needs two measurements of the same case")
    every = np.concatenate(ratios)
    lo, hi = _interval(ratios) if len(ratios) > 1 else (None, None)
    # Noise is as likely to hide a slow-down as to add to it. It hides more than this distance with probability 1 −
    # POWER.
    margin = _quantile(every, 1 - 2 * (1 - POWER))
    at = _quantile(every, CONFIDENCE)
    return Floor(math.expm1(at), lo, hi, math.expm1(at + margin), len(every), len(ratios))


def distances(times: Sequence[float]) -> list[float]:
    """|log ratio| of every pair of times."""
    return [abs(math.log(a / b)) for a, b in itertools.combinations(times, 2)]


def between_floor(cases: Sequence[Sequence[Sequence[float]]]) -> float | None:
    """The same quantile over pairs of measurements from different repeats, a share; None without two repeats.

    `cases` holds each case's repeats, and each repeat its times. A few repeats within one or two minutes are only an
    indication, so the result has no interval. It does not include changes from day to day.
    """
    every = [
        abs(math.log(a / b))
        for repeats in cases
        for one, other in itertools.combinations(repeats, 2)
        for a, b in itertools.product(one, other)
    ]
    return math.expm1(_quantile(np.array(every), CONFIDENCE)) if every else None


def _interval(ratios: Sequence[Sequence[float]]) -> tuple[float, float]:
    draws = np.random.default_rng(0)
    drawn = [
        _quantile(np.concatenate([ratios[i] for i in draws.integers(0, len(ratios), len(ratios))]), CONFIDENCE)
        for _ in range(_DRAWS)
    ]
    tail = (1 - CONFIDENCE) / 2
    return math.expm1(float(np.quantile(drawn, tail))), math.expm1(float(np.quantile(drawn, 1 - tail)))


def _quantile(values: np.ndarray, share: float) -> float:
    # Plain interpolation is too low in small samples: Hyndman and Fan 1996, "Sample quantiles", type 8.
    return float(np.quantile(values, share, method="median_unbiased"))
