"""The position of a step among commits, from synthetic log ratios: no clock, no layer."""

import math

import numpy as np
import pytest

from harness.extras.commits.change_position import FOUND, TIME_IS_UP, TWO_STEPS, Answer, ChangePosition, search_step
from harness.extras.compare.paired_verdicts import BlockFailed

LAST = 64
APART = math.log1p(0.015)
SURE = 0.95


class Repository:
    """Commits with known levels. Each observation is the mean of two blocks with the same fork servers."""

    def __init__(self, seed: int, steps: dict[int, float], last: int = LAST) -> None:
        self.draw = np.random.default_rng(seed)
        self.levels = np.cumsum([math.log1p(steps.get(commit, 0.0)) for commit in range(last + 1)])
        self.block_sd = self.draw.uniform(0.01, 0.03)
        self.server_sd = self.draw.uniform(0.005, 0.01)

    def observe(self, commit: int, base: int = 0) -> float:
        noise = self.draw.normal(0, self.block_sd / math.sqrt(2)) + self.draw.normal(0, self.server_sd)
        return float(self.levels[commit] - self.levels[base] + noise)


def search(repository: Repository, most: int = 200, broken: tuple[int, ...] = ()) -> tuple[Answer, str, list[int]]:
    """Search until the answer is sure, or until `most` observations are taken. Returns the measured commits too."""
    last = len(repository.levels) - 1
    taken: list[int] = []

    def take(base: int, commit: int) -> float:
        if not {base, commit}.isdisjoint(broken):
            raise BlockFailed("head: error: ImportError")
        taken.append(commit)
        return repository.observe(commit, base)

    of_bad = [repository.observe(last) for _ in range(12)]
    answer, reason, _ = search_step(last, of_bad, APART, take, lambda: len(taken) < most, SURE)
    return answer, reason, taken


def test_without_observations_of_other_commits_every_commit_is_as_probable() -> None:
    position = ChangePosition(8, 0.1, APART)
    for _ in range(10):
        position.add(8, 0.1)
    answer = position.answer()
    assert [one.probability for one in answer.candidates] == pytest.approx([1 / 8] * 8)
    assert answer.step.lo < 0.1 < answer.step.hi
    assert position.next_commit(answer) == 4  # the middle tells most


def test_a_step_between_two_neighbours_is_found() -> None:
    position = ChangePosition(8, 0.1, APART)
    for commit, log_ratio in ((8, 0.1), (4, 0.0), (5, 0.1)):
        for turn in range(8):
            position.add(commit, log_ratio + 0.002 * (turn % 3 - 1))
    answer = position.answer()
    assert answer.best.last == 5
    assert answer.best.probability > 0.99
    assert answer.two_steps < 0.1


def test_a_commit_that_became_faster_is_found_too() -> None:
    position = ChangePosition(8, -0.1, APART)
    for commit, log_ratio in ((8, -0.1), (4, 0.0), (5, -0.1)):
        for turn in range(8):
            position.add(commit, log_ratio + 0.002 * (turn % 3 - 1))
    answer = position.answer()
    assert answer.best.last == 5
    assert answer.step.lo < -0.1 < answer.step.hi < 0


def test_one_burst_of_noise_does_not_move_the_step() -> None:
    position = ChangePosition(8, 0.1, APART)
    for commit, log_ratio in ((8, 0.1), (4, 0.0), (5, 0.1)):
        for turn in range(8):
            position.add(commit, log_ratio + 0.005 * (turn % 3 - 1))
    position.add(4, 0.6)
    assert position.answer().best.last == 5


def test_a_position_is_an_answer_only_if_it_differs_from_the_commit_before_side_by_side() -> None:
    misleading = [0.1] * 8  # bursts of noise at commit 4, when it is measured against the good one
    compared = []

    def take(base: int, commit: int) -> float:
        if base:
            compared.append((base, commit))
        noise = 0.002 * (len(compared) % 3 - 1)
        if commit == 4 and not base and misleading:
            return misleading.pop() + noise
        return 0.1 * (base < 5 <= commit) + noise

    answer, reason, beside = search_step(8, [0.1] * 12, APART, take)
    assert reason == FOUND
    assert answer.best.last == 5
    assert set(compared) == {(3, 4), (4, 5)}
    assert np.mean(beside) == pytest.approx(0.1, abs=0.005)


def test_skipped_commits_share_an_answer_with_the_next_commit_that_can_be_measured() -> None:
    position = ChangePosition(8, 0.1, APART)
    position.skipped.add(4)
    position.skipped.add(5)
    for commit, log_ratio in ((8, 0.1), (3, 0.0), (6, 0.1)):
        for turn in range(8):
            position.add(commit, log_ratio + 0.002 * (turn % 3 - 1))
    answer = position.answer()
    assert (answer.best.first, answer.best.last) == (4, 6)
    assert answer.best.probability > 0.99
    assert position.next_commit(answer) not in position.skipped


def test_two_steps_are_told_apart_from_one() -> None:
    position = ChangePosition(8, 0.2, APART)
    for commit, log_ratio in ((8, 0.2), (2, 0.0), (3, 0.1), (5, 0.1), (6, 0.2)):
        for turn in range(8):
            position.add(commit, log_ratio + 0.002 * (turn % 3 - 1))
    answer = position.answer()
    assert answer.two_steps > 0.95
    assert answer.pair == (3, 6)
    assert answer.pair_probability > 0.95


def test_a_search_skips_commits_that_cannot_be_measured() -> None:
    answer, reason, taken = search(Repository(3, {20: 0.1}, last=32), broken=(16, 17, 19, 20))
    assert reason == FOUND
    assert answer.best.first <= 20 <= answer.best.last
    assert answer.best.last == 21
    assert not {16, 17, 19, 20} & set(taken)


def test_a_search_without_time_says_so_and_keeps_the_probabilities() -> None:
    answer, reason, taken = search(Repository(3, {20: 0.1}), most=2)
    assert reason == TIME_IS_UP
    assert len(taken) == 2
    assert sum(one.probability for one in answer.candidates) == pytest.approx(1)


def test_a_search_reports_two_steps_where_one_does_not_explain_the_times() -> None:
    answer, reason, _ = search(Repository(5, {20: 0.15, 44: 0.15}))
    assert reason == TWO_STEPS
    assert answer.two_steps >= SURE


@pytest.mark.parametrize("step", [0.1, 0.05])
def test_it_is_right_as_often_as_it_says(step: float) -> None:
    outcomes = calibration(step, 20)
    assert outcomes["wrong"] <= 3  # of 20, where 1 is expected; the slow test below is the strict one


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.1, 0.05])
def test_it_is_right_as_often_as_it_says_in_many_repositories(step: float) -> None:
    outcomes = calibration(step, 60)
    claimed = outcomes["right"] + outcomes["wrong"]
    assert outcomes["wrong"] <= 0.05 * claimed
    assert claimed > 52


def calibration(step: float, number: int) -> dict[str, int]:
    """How many searches end right, wrong or undecided, with one step at a random commit."""
    outcomes = {"right": 0, "wrong": 0, "undecided": 0}
    for seed in range(number):
        at = int(np.random.default_rng(10_000 + seed).integers(1, LAST + 1))
        answer, reason, _ = search(Repository(seed, {at: step}))
        outcomes["undecided" if reason != FOUND else "right" if answer.best.last == at else "wrong"] += 1
    return outcomes
