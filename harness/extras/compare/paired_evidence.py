"""The evidence in the blocks of one case: the exact signed-rank test, its interval, and what more blocks could decide.

Wilcoxon 1945, "Individual comparisons by ranking methods". Blocks of one generation, which share their fork servers,
are not independent. The values of the test are therefore the means of the generations. The test assumes only that each
value is symmetric about the true value, and independent of the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from harness.core.stats.interval import Floats

# The second measurement has its first look after this many generations. The least p-value of six looks is 6 / 2⁶ < 0.1.
_FIRST_LOOK_AGAIN = 6


@dataclass(frozen=True)
class Rules:
    """The threshold, the error rates and the looks of a comparison.

    - The threshold, as a share (`threshold`). A change no larger than this does not matter.
    - The error rate (`alpha`). Among cases reported as changed, it bounds the share of those that have not changed by
      more than the threshold. It also bounds how often a case that has changed is called equivalent.
    - The error rate of the second measurement, that of flagged cases (`alpha_again`). A false result counts only if
      both measurements err: in either direction, that is at most one run in 200.
    - The numbers of generations after which a case is tested, and stopped if it is decided or hopeless (`looks`). The
      second measurement allows more errors, so its first look comes earlier.
    - The number of rounds, and so of a case's blocks, in a generation (`generation`). In simulation, with blocks of
      0.3 s and new fork servers in 2.9 s, 12 cases with one at +5 % take 154 s with two rounds, and 241 s with four.
    """

    threshold: float = 0.03
    alpha: float = 0.05
    alpha_again: float = 0.1
    looks: tuple[int, ...] = (8, 12, 18, 27, 40, 60)
    generation: int = 2

    @property
    def again(self) -> "Rules":
        """The rules of the second measurement: one more early look, and one late look less."""
        looks = self.looks
        if len(looks) > 2 and looks[0] > _FIRST_LOOK_AGAIN:
            looks = (_FIRST_LOOK_AGAIN, *looks[:-2], looks[-1])
        return replace(self, alpha=self.alpha_again, looks=looks)

    @property
    def log_threshold(self) -> float:
        """The threshold as a log ratio, the same for slower and faster."""
        return math.log1p(self.threshold)

    @property
    def fewest_blocks(self) -> int:
        """The number of blocks of a case at the first look."""
        return self.looks[0] * self.generation

    @property
    def most_blocks(self) -> int:
        """The maximum number of blocks of a case in one measurement."""
        return self.looks[-1] * self.generation

    def means(self, logs: Sequence[float]) -> list[float]:
        """The mean of each generation of a case's blocks, given in their order. The last may have fewer blocks."""
        parts = (logs[at : at + self.generation] for at in range(0, len(logs), self.generation))
        return [sum(part) / len(part) for part in parts]


def walsh_averages(values: Sequence[float]) -> Floats:
    """The N(N + 1)/2 averages (xᵢ + xⱼ)/2 with i ≤ j, of each pair of values and each value with itself, ascending.

    The statistic of the signed-rank test is the number of these averages above a value.
    """
    x = np.asarray(values, dtype=float)
    i, j = np.triu_indices(len(x))
    return np.sort((x[i] + x[j]) / 2)


def p_value_above(averages: Floats, value: float) -> float:
    """The p-value of the hypothesis that the true value is at most `value`, from the Walsh averages above it.

    Averages equal to `value` do not count as above.
    """
    above = len(averages) - int(np.searchsorted(averages, value, side="right"))
    return float(_rank_tails(len(averages))[above])


def p_value_below(averages: Floats, value: float) -> float:
    """The p-value of the hypothesis that the true value is at least `value`, from the Walsh averages below it."""
    return float(_rank_tails(len(averages))[int(np.searchsorted(averages, value, side="left"))])


def pseudomedian(averages: Floats) -> float:
    """The Hodges–Lehmann estimate of the centre: the median of the Walsh averages.

    Hollander, Wolfe and Chicken 2014, "Nonparametric statistical methods", 3.1 to 3.3.
    """
    middle = len(averages) // 2  # the averages are sorted
    return float(averages[~middle] + averages[middle]) / 2


def signed_rank_interval(averages: Floats, alpha: float) -> tuple[float, float]:
    """A confidence interval for the true value at level 1 − `alpha` or higher; infinite with too few blocks."""
    tails = _rank_tails(len(averages))
    # The largest number of averages that may lie outside the interval on one side.
    outside = len(averages) - int(np.argmax(tails <= alpha / 2)) if tails[-1] <= alpha / 2 else -1
    if outside < 0:
        return -math.inf, math.inf
    return float(averages[outside]), float(averages[-1 - outside])


@lru_cache
def _rank_tails(averages: int) -> Floats:
    """P(W ≥ w) for w from 0 to N(N + 1)/2, the number of `averages`.

    W is the sum of a random subset of the ranks 1 … N, in which each rank is with probability ½.
    """
    number = round((math.sqrt(8 * averages + 1) - 1) / 2)
    counts = np.ones(1)
    for rank in range(1, number + 1):
        counts = np.concatenate([counts, np.zeros(rank)]) + np.concatenate([np.zeros(rank), counts])
    return np.minimum(np.cumsum(counts[::-1])[::-1] / 2.0**number, 1.0)


# Power of the smallest detectable change: a comparison detects it four times in five.
_POWER = 0.8


@dataclass(frozen=True)
class Evidence:
    """The evidence in the blocks of one case, from their log ratios.

    Each p-value is corrected for the maximum number of looks (Bonferroni). The confidence interval is corrected in the
    same way, so its error rate holds at every look.

    The p-values test null hypotheses about the ratio of B's time to A's:
    - `p_slower`: it is not above the threshold.
    - `p_faster`: it is not below the reciprocal of the threshold.
    - `p_equivalent`: it is not between the two (two one-sided tests: Schuirmann 1987).

    The estimate of the ratio is `ratio`, its interval `lo` to `hi`.
    """

    blocks: int
    p_slower: float
    p_faster: float
    p_equivalent: float
    ratio: float
    lo: float
    hi: float


def evidence_of(logs: Sequence[float], rules: Rules, misses: float | None = None) -> Evidence:
    """The evidence in `logs`, log(B's time / A's time) of each block. Without blocks, every p-value is 1.

    The error rate of the interval is `misses`, half of it at either end. The default is the alpha of the rules.
    """
    if not logs:
        return Evidence(0, 1.0, 1.0, 1.0, math.nan, 0.0, math.inf)
    averages, threshold, looks = walsh_averages(rules.means(logs)), rules.log_threshold, len(rules.looks)
    lo, hi = signed_rank_interval(averages, (rules.alpha if misses is None else misses) / looks)
    within = max(p_value_above(averages, -threshold), p_value_below(averages, threshold))
    return Evidence(
        blocks=len(logs),
        p_slower=min(1.0, looks * p_value_above(averages, threshold)),
        p_faster=min(1.0, looks * p_value_below(averages, -threshold)),
        p_equivalent=min(1.0, looks * within),
        ratio=math.exp(pseudomedian(averages)),
        lo=math.exp(lo),
        hi=math.exp(hi),
    )


def ratio_text(evidence: Evidence) -> str:
    """The time ratio with its interval: `×1.052 (1.041 to 1.063)`. Empty without blocks."""
    interval = f" ({evidence.lo:.3f} to {evidence.hi:.3f})" if evidence.lo > 0 else ""
    return f"×{evidence.ratio:.3f}{interval}" if evidence.blocks else ""


def smallest_detectable(evidence: Evidence, cases: int, rules: Rules) -> float:
    """The smallest slowdown, as a share, that blocks with this noise flag four times in five, before confirmation.

    It is infinite if even the maximum number of blocks cannot reach the p-value required for this number of cases.
    """
    if not _can_call(rules.looks[-1], cases, rules):
        return math.inf
    # From the standard error to the change that a test of all cases needs.
    needed = ndtri(_POWER) - ndtri(rules.alpha / len(rules.looks) / cases)
    return math.expm1(rules.log_threshold + _standard_error(evidence, rules) * needed)


def _standard_error(evidence: Evidence, rules: Rules) -> float:
    """The standard error of the log ratio, from the half-width of its interval; infinite with too few generations."""
    half = math.log(evidence.hi / evidence.lo) / 2 if evidence.lo > 0 else math.inf
    return float(half / -ndtri(rules.alpha / len(rules.looks) / 2))


def chance_of_decision(evidence: Evidence, more: float, cases: int, rules: Rules) -> float:
    """The probability that a case is decided after `more` generations, if its blocks go on to vary as they do.

    A change counts as decided if it is, whatever the results of other cases. This is the predictive power of
    Spiegelhalter, Freedman and Blackburn 1986, "Monitoring clinical trials: conditional or predictive power?". The log
    ratio so far is known as exactly as its standard error says. The final one is normal around it. A case that is
    stopped because of a small probability is not called anything, so no error rate grows.
    """
    now = -(-evidence.blocks // rules.generation)
    last = min(now + more, rules.looks[-1])
    error = _standard_error(evidence, rules)
    if last <= now:
        return 0.0
    if math.isinf(error):
        return 1.0  # nothing is known yet
    final = error * math.sqrt(now / last)
    steps = math.sqrt(error**2 - final**2)
    of_one, of_all = (-ndtri(alpha / len(rules.looks)) * final for alpha in (rules.alpha, rules.alpha / cases))
    log_ratio, threshold = math.log(evidence.ratio), rules.log_threshold
    below = lambda value: float(ndtr((value - log_ratio) / max(steps, math.ulp(0.0))))  # noqa: E731
    within = max(0.0, below(threshold - of_one) - below(of_one - threshold))
    if not _can_call(last, cases, rules):
        return within
    return within + below(-threshold - of_all) + 1 - below(threshold + of_all)


def _can_call(generations: float, cases: int, rules: Rules) -> bool:
    """Whether this number of generations can have the p-value that calls one of `cases` slower or faster."""
    return len(rules.looks) * 0.5**generations <= rules.alpha / cases
