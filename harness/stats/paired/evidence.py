"""The evidence in the blocks of one case: p-values against not slower, not faster and not equivalent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from harness.stats.paired import signed_rank
from harness.stats.paired.rules import Rules

# Power of the smallest detectable change: a comparison detects it four times in five.
_POWER = 0.8


@dataclass(frozen=True)
class Evidence:
    """The evidence in the log ratios of blocks.

    Each p-value is corrected for the maximum number of looks (Bonferroni). The confidence interval is corrected in the
    same way, so its error rate holds at every look.

    Each p-value tests a null hypothesis about the ratio of B's time to A's. For `slower`, the ratio is not above the
    threshold. For `faster`, the ratio is not below the reciprocal of the threshold. For `equivalent`, the ratio is not
    between the two (two one-sided tests: Schuirmann 1987). The estimate of the ratio is `ratio`, its interval `lo` to
    `hi`.
    """

    blocks: int
    slower: float
    faster: float
    equivalent: float
    ratio: float
    lo: float
    hi: float


def evidence(logs: Sequence[float], rules: Rules, misses: float | None = None) -> Evidence:
    """The evidence in `logs`, log(B's time / A's time) of each block. Without blocks, every p-value is 1.

    The error rate of the interval is `misses`, half of it at either end. The default is the alpha of the rules.
    """
    if not logs:
        return Evidence(0, 1.0, 1.0, 1.0, math.nan, 0.0, math.inf)
    averages, floor, looks = signed_rank.walsh(logs), rules.log_floor, len(rules.looks)
    lo, hi = signed_rank.interval(averages, (rules.alpha if misses is None else misses) / looks)
    within = max(signed_rank.p_above(averages, -floor), signed_rank.p_below(averages, floor))
    return Evidence(
        blocks=len(logs),
        slower=min(1.0, looks * signed_rank.p_above(averages, floor)),
        faster=min(1.0, looks * signed_rank.p_below(averages, -floor)),
        equivalent=min(1.0, looks * within),
        ratio=math.exp(signed_rank.location(averages)),
        lo=math.exp(lo),
        hi=math.exp(hi),
    )


def is_decided(found: Evidence, cases: int, rules: Rules) -> bool:
    """Whether no more blocks are needed: equivalent, or slower or faster whatever the results of other cases."""
    return min(found.slower, found.faster) <= rules.alpha / cases or found.equivalent <= rules.alpha


def smallest_detectable(found: Evidence, cases: int, rules: Rules) -> float:
    """The smallest slowdown, as a share, that blocks with this noise flag four times in five, before confirmation.

    It is infinite if even the maximum number of blocks cannot reach the p-value required for this number of cases.
    """
    if len(rules.looks) * 0.5**rules.most_blocks > rules.alpha / cases:
        return math.inf
    half = math.log(found.hi / found.lo) / 2 if found.lo > 0 else math.inf
    looks = len(rules.looks)
    # Convert the half-width of the interval to a standard error, then to the change that a test of all cases needs.
    error = half / -ndtri(rules.alpha / looks / 2)
    return math.expm1(rules.log_floor + error * (ndtri(_POWER) - ndtri(rules.alpha / looks / cases)))
