"""What the blocks of one case say: how likely they would be of a case that is not slower, not faster, not alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from harness.stats.paired import signed_rank
from harness.stats.paired.rules import Rules

# The change that a comparison says it could have seen is one that it sees four times in five.
_POWER = 0.8


@dataclass(frozen=True)
class Evidence:
    """Of blocks' log ratios. Each p already pays for as many looks as there may be (Bonferroni), and so does the
    interval, which misses the ratio as seldom as was asked for, whenever it was stopped.

    `slower`, `faster`: p of a ratio that is not above, not below the floor. `equivalent`: of one that is not within it
    (two one-sided tests: Schuirmann 1987). `ratio`, `lo`, `hi`: B's time over A's.
    """

    blocks: int
    slower: float
    faster: float
    equivalent: float
    ratio: float
    lo: float
    hi: float


def evidence(logs: Sequence[float], rules: Rules, misses: float | None = None) -> Evidence:
    """Of each block's log(B's time / A's time). Without blocks nothing is known.

    `misses`: how often the interval may miss the ratio, half of it at either end; the rules' alpha, if not given.
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
    """Whether more blocks are not needed: it is equivalent, or slower or faster whatever the others turn out to be."""
    return min(found.slower, found.faster) <= rules.alpha / cases or found.equivalent <= rules.alpha


def smallest_detectable(found: Evidence, cases: int, rules: Rules) -> float:
    """The smallest slow-down, a share, that blocks as noisy as these flag four times in five, before it is confirmed.

    Infinite where so many cases ask for more than all the blocks that there may be can say.
    """
    if len(rules.looks) * 0.5**rules.most_blocks > rules.alpha / cases:
        return math.inf
    half = math.log(found.hi / found.lo) / 2 if found.lo > 0 else math.inf
    looks = len(rules.looks)
    # Of the interval's half width, what a standard error is; of that, what a test of all cases needs.
    error = half / -ndtri(rules.alpha / looks / 2)
    return math.expm1(rules.log_floor + error * (ndtri(_POWER) - ndtri(rules.alpha / looks / cases)))
