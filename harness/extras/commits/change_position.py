"""Find the commit at which a layer changed: an exact fact by binary search, a time from noisy log ratios.

The commits are numbered from 0 (good) to `last` (bad). A fact repeats exactly, so one trial of a commit decides on
which side of the change it lies. About log₂ of the number of commits are measured.

A time has log ratios of each commit's time to the first commit's. One step of unknown size lies at an unknown position:
the commits before it have the log ratio 0, and the others that of the step. Bayes' rule gives the probability of each
position. The posterior stays valid whichever commit is measured next, and whenever the measuring stops.

The noise is Student's t around the log ratio of the commit, so that a burst of noise counts little. Its scale is
unknown: it is averaged over a grid, like the size of the step. Each commit may also differ from its neighbours by a
small effect of its own, such as another layout of its code, which does not average out.

A position is an answer only after its commit was compared with the one before, side by side. This comparison counts as
evidence too: it has the log ratio of the step if the step is between the two commits, and 0 if it is elsewhere.

The times of a history are known at every commit. `segments` splits such a series of log ratios into segments of
constant level, by exact optimisation with known standard errors. The sum of squared distances from the levels, in
standard errors, is as small as possible. Each further segment adds a penalty to this sum. Dynamic programming finds the
best of all splits (Jackson and others 2005, "An algorithm for optimal partitioning of data on an interval"). The result
has no randomness, and a step at the last value counts too.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, gammaln, logsumexp

from harness.core.model import formatting
from harness.extras.compare.paired_verdicts import BlockFailed

Floats = NDArray[np.float64]

# Degrees of freedom of the noise, and the grid of its scale: log ratios of one observation, a generation's mean.
_FREEDOM = 5.0
_SCALES = np.geomspace(0.003, 0.06, 9)
# The standard deviation of a commit's own effect, as a log ratio: another layout of its code, which no repetition
# averages out.
_OWN_EFFECT = 0.0015
_LEVELS = 181
# The grid of log ratios, in multiples of the step between good and bad.
_LOWEST, _HIGHEST = -1.25, 2.25
# The probability of two steps before anything is measured.
_TWO_STEPS = 0.1
# Observations of a candidate against the commit before it, which confirm it.
_CONFIRMING = 8


@dataclass(frozen=True)
class FirstChange:
    """The change lies at one of the commits `first` to `last`; all but the last of them cannot be measured.

    The fact is `was` before `first`, and `now` at `last`. `returns`: `now` is not the value of the last commit of all,
    so that the fact changed again later.
    """

    first: int
    last: int
    was: Any
    now: Any
    returns: bool


def first_change(last: int, fact_at: Callable[[int], Any]) -> FirstChange | None:
    """A change of the fact between the commits 0 and `last`, which have been measured; None if it is the same at both.

    `fact_at` is None for a commit that cannot be measured. The search asks once for each commit. If the fact changes
    several times, the result is one of these changes: at `first - 1` the fact still had the value of commit 0.
    """
    was, end = fact_at(0), fact_at(last)
    if was == end:
        return None
    good, bad, now = 0, last, end
    unmeasured = set()
    while inside := [at for at in range(good + 1, bad) if at not in unmeasured]:
        # The nearest to the middle: its neighbours may be commits that cannot be measured.
        at = min(inside, key=lambda commit: (abs(2 * commit - good - bad), commit))
        value = fact_at(at)
        if value is None:
            unmeasured.add(at)
        elif value == was:
            good = at
        else:
            bad, now = at, value
    return FirstChange(good + 1, bad, was, now, now != end)


class Step(NamedTuple):
    """A ratio of times as a log ratio, and the ends of its 95 % interval."""

    middle: float
    lo: float
    hi: float

    @property
    def text(self) -> str:
        """The change of the time with its interval, in per cent."""
        change, least, most = map(formatting.change, self)
        return f"{change} (95 % interval {least} to {most})"

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes that there is no step."""
        return self.lo > 0 or self.hi < 0

    def is_seen(self, apart: float) -> bool:
        """Whether there is a step, of at least `apart` by its best estimate."""
        return self.is_sure and abs(self.middle) >= apart

    def is_excluded(self, apart: float) -> bool:
        """Whether the interval excludes a step of `apart` in either direction."""
        return -apart < self.lo and self.hi < apart


@dataclass(frozen=True)
class Candidate:
    """The commits `first` to `last`, and the probability that the step is at one of them.

    They are several if all but the last were skipped: nothing can tell them apart.
    """

    first: int
    last: int
    probability: float


@dataclass(frozen=True)
class Answer:
    """What the observations tell.

    - `candidates`: in the order of the commits, if there is one step.
    - `step`: the step, with its credible interval.
    - `two_steps`: the probability that there are two steps, not one.
    - `pair`: the most probable two positions, as the last commits of their candidates; None if only one is possible.
    - `pair_probability`: the probability of `pair`, if there are two steps.
    """

    candidates: tuple[Candidate, ...]
    step: Step
    two_steps: float
    pair: tuple[int, int] | None
    pair_probability: float

    @property
    def best(self) -> Candidate:
        """The most probable candidate."""
        return max(self.candidates, key=lambda candidate: candidate.probability)


@dataclass
class ChangePosition:
    """Collects observations of the commits 0 to `last`, and finds the position of the step.

    `expected` is the log ratio between good and bad, as first measured: it sets the range of possible steps. `apart` is
    the least log ratio between two levels that count as different. Commits that cannot be measured are `skipped`: a
    step there counts as one at the next commit that can be.
    """

    last: int
    expected: float
    apart: float
    skipped: set[int] = field(default_factory=set)
    counts: Counter[int] = field(default_factory=Counter)
    _likelihoods: dict[int, Floats] = field(default_factory=dict)  # by commit: scale × own effect × level
    # By the two commits of a comparison side by side: scale × level.
    _beside: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._levels = np.linspace(_LOWEST, _HIGHEST, _LEVELS) * self.expected
        self._zero = int(np.argmin(np.abs(self._levels)))
        nodes, weights = np.polynomial.hermite_e.hermegauss(5)
        self._effects, self._log_weights = nodes * _OWN_EFFECT, np.log(weights / weights.sum())

    def add(self, commit: int, log_ratio: float) -> None:
        """Count an observation: the mean log ratio of a generation of blocks, the commit's time over the good one's."""
        likelihood = self._likelihood(log_ratio, self._effects)
        self._likelihoods[commit] = self._likelihoods.get(commit, 0.0) + likelihood
        self.counts[commit] += 1

    def add_beside(self, before: int, commit: int, log_ratios: Sequence[float]) -> None:
        """Count observations of a commit over an earlier one. Both have an effect of their own."""
        likelihood = sum(self._likelihood(each, math.sqrt(2) * self._effects) for each in log_ratios)
        self._beside[before, commit] = logsumexp(likelihood + self._log_weights[:, None], axis=1)

    def _likelihood(self, log_ratio: float, effects: Floats) -> Floats:
        """The log likelihood of an observation: scale × own effect × level."""
        scale = _SCALES[:, None, None]
        distance = (log_ratio - self._levels - effects[:, None]) / scale
        constant = gammaln((_FREEDOM + 1) / 2) - gammaln(_FREEDOM / 2) - math.log(_FREEDOM * math.pi) / 2
        return constant - np.log(scale) - (_FREEDOM + 1) / 2 * np.log1p(distance**2 / _FREEDOM)

    def answer(self) -> Answer:
        """The posterior, from all observations so far."""
        ends = [commit for commit in range(1, self.last + 1) if commit not in self.skipped]
        firsts = [1, *(end + 1 for end in ends[:-1])]
        prior = np.log([end - first + 1 for first, end in zip(firsts, ends, strict=True)]) - math.log(self.last)
        sums = self._sums(ends)  # scale × commits before the candidate × level
        # A step of less than `apart` is none.
        is_step = np.abs(self._levels) >= self.apart
        of_level = np.where(is_step, -math.log(is_step.sum()), -np.inf)
        before = sums[:, :-1, self._zero]
        after = sums[:, -1:] - sums[:, :-1] + of_level  # the likelihood of the commits from the candidate on
        joint = before[:, :, None] + after + prior[None, :, None]
        for compared, likelihood in self._beside.items():
            between = _is_between(compared, ends)
            joint += np.where(between[:, None], likelihood[:, None, :], likelihood[:, None, self._zero, None])
        one_step = float(logsumexp(joint))
        of_position = np.exp(logsumexp(joint, axis=(0, 2)) - one_step)
        of_step = np.exp(logsumexp(joint, axis=(0, 1)) - one_step)
        two, pair, chance = self._two_steps(sums, before, after, prior, ends)
        candidates = tuple(Candidate(*each) for each in zip(firsts, ends, map(float, of_position), strict=True))
        log_odds = two - one_step + math.log(_TWO_STEPS / (1 - _TWO_STEPS)) if pair is not None else -math.inf
        return Answer(candidates, self._summary(of_step), 1 / (1 + math.exp(min(-log_odds, 700.0))), pair, chance)

    def next_commit(self, answer: Answer) -> int:
        """The commit whose next observation is expected to tell most about the position.

        An observation of a commit tells only whether the step is at or before that commit. Its expected information is
        therefore the largest where the probability of that is nearest to one half. Among equals, the commit with the
        fewest observations comes first: its own effect is known least.
        """
        reached, options = 0.0, []
        for candidate in answer.candidates:
            reached += candidate.probability
            options.append((round(abs(reached - 0.5), 9), self.counts[candidate.last], candidate.last))
        return min(options)[2]

    def _sums(self, ends: list[int]) -> Floats:
        """The log likelihood of all commits before each candidate, then that of all commits, by scale and level."""
        each = np.zeros((len(_SCALES), len(ends) + 1, _LEVELS))
        for at, commit in enumerate(ends):
            if commit in self._likelihoods:
                weighted = self._likelihoods[commit] + self._log_weights[:, None]
                each[:, at + 1] = logsumexp(weighted, axis=1)
        return np.cumsum(each, axis=1)

    def _summary(self, of_step: Floats) -> Step:
        order = np.argsort(self._levels)
        levels, cumulative = self._levels[order], np.cumsum(of_step[order]) - of_step[order] / 2
        lo, middle, hi = (float(np.interp(share, cumulative, levels)) for share in (0.025, 0.5, 0.975))
        return Step(middle, lo, hi)

    def _two_steps(
        self, sums: Floats, before: Floats, after: Floats, prior: Floats, ends: list[int]
    ) -> tuple[float, tuple[int, int] | None, float]:
        """The log evidence of two steps, the most probable pair of positions, and its probability.

        The level between the steps differs from 0 and from the level at the end by `apart` at least.
        """
        differs = (np.abs(self._levels) >= self.apart) & (np.abs(self._levels - self.expected) >= self.apart)
        number = len(ends)
        pairs = np.triu_indices(number, 1)
        if not differs.any() or not len(pairs[0]):
            return -math.inf, None, 0.0
        # Candidates between the same measured commits have the same sums, so these are compared only once.
        measured = np.array([0, *(commit in self._likelihoods for commit in ends[:-1])])
        rows = np.cumsum(measured)
        middle = sums[:, np.unique(rows, return_index=True)[1]][:, :, differs]
        each = logsumexp(middle[:, None] - middle[:, :, None], axis=3) - math.log(differs.sum())
        within = each[:, rows[pairs[0]], rows[pairs[1]]]
        final = logsumexp(after, axis=2)[:, pairs[1]]
        weights = prior[pairs[0]] + prior[pairs[1]]
        weights = weights - logsumexp(weights)
        by_scale = before[:, pairs[0]] + within + final
        for compared, likelihood in self._beside.items():
            between = _is_between(compared, ends)[np.array(pairs)].any(axis=0)
            changed = logsumexp(likelihood[:, differs], axis=1) - math.log(differs.sum())
            by_scale += np.where(between, changed[:, None], likelihood[:, self._zero, None])
        joint = logsumexp(by_scale, axis=0) + weights
        evidence = float(logsumexp(joint))
        best = int(np.argmax(joint))
        return evidence, (ends[pairs[0][best]], ends[pairs[1][best]]), float(np.exp(joint[best] - evidence))


def _is_between(compared: tuple[int, int], ends: Sequence[int]) -> NDArray[np.bool_]:
    """Whether a step at each candidate, given by its last commit, is between the two compared commits."""
    return np.array([compared[0] < end <= compared[1] for end in ends])


# Why a search ended.
FOUND, TWO_STEPS, TIME_IS_UP = "found", "two steps", "time is up"


def search_step(
    last: int,
    of_bad: Sequence[float],
    apart: float,
    take: Callable[[int, int], float],
    has_time: Callable[[], bool] = lambda: True,
    sure: float = 0.95,
) -> tuple[Answer, str, list[float]]:
    """Measure commits until a position, or that there are two steps, has the probability `sure`.

    `of_bad` are observations of the commit `last`, which have confirmed a difference. `take(base, head)` measures two
    commits and returns the mean log ratio of a generation of their blocks. A commit for which it raises BlockFailed is
    skipped, unless an earlier observation of it succeeded.

    Returns the answer, why the search ended, and the observations of the answer's commit over the commit before.
    """
    position = ChangePosition(last, float(np.median(of_bad)), apart)
    for log_ratio in of_bad:
        position.add(last, log_ratio)
    failed = set()
    beside: dict[tuple[int, int], list[float]] = {}
    while True:
        answer = position.answer()
        pair = answer.best.first - 1, answer.best.last
        confirming = beside.setdefault(pair, [])
        if answer.two_steps >= sure:
            return answer, TWO_STEPS, []
        is_sure = answer.best.probability * (1 - answer.two_steps) >= sure
        if is_sure and len(confirming) == _CONFIRMING:
            return answer, FOUND, confirming
        if not has_time():
            return answer, TIME_IS_UP, []
        if is_sure:
            while len(confirming) < _CONFIRMING and has_time():
                confirming.append(take(*pair))
            position.add_beside(*pair, confirming)
            continue
        commit = position.next_commit(answer)
        try:
            position.add(commit, take(0, commit))
        except BlockFailed:
            # A measured commit may fail once by chance: only a commit without observations is skipped at once.
            if commit in failed and commit in position.counts:
                raise
            failed.add(commit)
            if commit not in position.counts:
                position.skipped.add(commit)


# Weight of the series' typical variance, in degrees of freedom.
_PRIOR_FREEDOM = 8.0
# Constant part of the penalty. In simulations with 15 to 200 values, 1.4 to 1.8 % of the series then have a false step.
_CONSTANT_PENALTY = 7.0


@dataclass(frozen=True)
class Segment:
    """The values `first` to `last` of a series, their level as a log ratio, and its standard error."""

    first: int
    last: int
    level: float
    error: float


def standard_errors(repeats: Sequence[Sequence[float]]) -> Floats:
    """The standard error of the mean of each value's `repeats`, of which each value has two or more.

    Few repeats tell little about their spread. It is therefore drawn towards the typical spread of the series. A value
    from a disturbed machine still gets a larger error than others.
    """
    freedom = np.array([len(of_value) - 1.0 for of_value in repeats])
    variances = np.array([np.var(of_value, ddof=1) for of_value in repeats])
    # The median of a sample variance lies below the variance.
    typical = float(np.median(variances * freedom / chdtri(freedom, 0.5)))
    shrunken = (_PRIOR_FREEDOM * typical + freedom * variances) / (_PRIOR_FREEDOM + freedom)
    return np.sqrt(shrunken / (freedom + 1) + _OWN_EFFECT**2)


def penalty(number: int) -> float:
    """The penalty of a further segment in a series of `number` values.

    A step has two parameters, its size and its position. Each costs the logarithm of the number (Schwarz 1978,
    "Estimating the dimension of a model").
    """
    return 2 * math.log(max(number, 1)) + _CONSTANT_PENALTY


def segments(values: Sequence[float], errors: Sequence[float]) -> list[Segment]:
    """The best split of the values, whose standard errors are above 0. A series without a step is one segment."""
    number = len(values)
    weights = 1 / np.square(np.asarray(errors, dtype=float))
    middle = float(np.average(values, weights=weights)) if number else 0.0
    x = np.asarray(values, dtype=float) - middle  # smaller sums, so less rounding
    w, wx, wxx = (np.concatenate([[0.0], np.cumsum(terms)]) for terms in (weights, weights * x, weights * x * x))
    best, before = np.zeros(number + 1), np.zeros(number + 1, dtype=int)
    each = penalty(number)
    for end in range(1, number + 1):
        costs = wxx[end] - wxx[:end] - (wx[end] - wx[:end]) ** 2 / (w[end] - w[:end])
        totals = best[:end] + costs + each
        before[end] = int(np.argmin(totals))
        best[end] = totals[before[end]]
    parts: list[Segment] = []
    end = number
    while end:
        start = int(before[end])
        weight = float(w[end] - w[start])
        level = middle + float(wx[end] - wx[start]) / weight
        parts.insert(0, Segment(start, end - 1, level, 1 / math.sqrt(weight)))
        end = start
    return parts
