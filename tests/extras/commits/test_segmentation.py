"""Change points of log ratios with known errors, from synthetic numbers: no clock, no layer."""

import itertools
import math

import numpy as np
import pytest

from harness.extras.commits.change_position import Segment, penalty, segments, standard_errors

COMMITS, GENERATIONS = 60, 8
REPEATS = 200


def series(seed: int, steps: dict[int, float], commits: int = COMMITS) -> list[list[float]]:
    """The generations of each commit, around levels that step at some commits. Some jobs meet a disturbed machine."""
    draw = np.random.default_rng(seed)
    levels = np.cumsum([math.log1p(steps.get(commit, 0.0)) for commit in range(commits)])
    spread = draw.uniform(0.008, 0.02) * np.where(draw.random(commits) < 0.1, 2.5, 1.0)
    own = draw.normal(0, 0.0015, commits)
    return [
        list(level + effect + scale * draw.standard_normal(GENERATIONS))
        for level, effect, scale in zip(levels, own, spread, strict=True)
    ]


def found_in(repeats: list[list[float]]) -> list[Segment]:
    return segments([float(np.mean(one)) for one in repeats], list(standard_errors(repeats)))


def starts(found: list[Segment]) -> list[int]:
    return [one.first for one in found[1:]]


def test_the_split_is_the_best_of_all_splits() -> None:
    draw = np.random.default_rng(1)
    values, errors = draw.normal(0, 1, 8), draw.uniform(0.1, 0.5, 8)

    def cost(split: tuple[int, ...]) -> float:
        total = 0.0
        for a, b in itertools.pairwise((0, *split, 8)):
            level = np.average(values[a:b], weights=1 / errors[a:b] ** 2)
            total += float(np.sum(((values[a:b] - level) / errors[a:b]) ** 2)) + penalty(8)
        return total

    every = [split for size in range(8) for split in itertools.combinations(range(1, 8), size)]
    assert tuple(starts(segments(list(values), list(errors)))) == min(every, key=cost)


def test_a_level_has_the_standard_error_of_its_values() -> None:
    (one,) = segments([0.01, 0.03], [0.01, 0.01])
    assert (one.first, one.last) == (0, 1)
    assert one.level == pytest.approx(0.02)
    assert one.error == pytest.approx(0.01 / math.sqrt(2))


def test_a_series_of_no_values_or_of_one_has_no_step() -> None:
    assert segments([], []) == []
    assert len(segments([0.2], [0.01])) == 1


@pytest.mark.parametrize(("commits", "most"), [(15, 0.05), (60, 0.025), (200, 0.025)])
def test_a_series_without_a_step_seldom_seems_to_have_one(commits: int, most: float) -> None:
    alarms = sum(len(found_in(series(seed, {}, commits))) > 1 for seed in range(REPEATS))
    assert alarms / REPEATS <= most


@pytest.mark.parametrize("step", [0.05, 0.1, -0.05])
def test_a_step_is_found_at_its_commit(step: float) -> None:
    found = sum(starts(found_in(series(seed, {30: step}))) == [30] for seed in range(REPEATS))
    assert found / REPEATS >= 0.95


def test_a_step_at_the_last_commit_is_found() -> None:
    found = sum(starts(found_in(series(seed, {59: 0.05}))) == [59] for seed in range(REPEATS))
    assert found / REPEATS >= 0.9


def test_two_steps_are_told_apart_even_if_the_second_undoes_the_first() -> None:
    found = sum(starts(found_in(series(seed, {20: 0.05, 24: -0.05 / 1.05}))) == [20, 24] for seed in range(REPEATS))
    assert found / REPEATS >= 0.95


def test_the_error_of_a_disturbed_value_is_larger() -> None:
    repeats = [[0.0, 0.01] * 4, [0.0, 0.01] * 4, [0.0, 0.08] * 4]
    errors = standard_errors(repeats)
    assert errors[0] == errors[1]
    assert errors[2] > 3 * errors[0]


def test_two_repeats_that_agree_by_chance_are_not_taken_for_exact() -> None:
    repeats = [list(one) for one in np.random.default_rng(2).normal(0, 0.01, (20, 8))]
    assert standard_errors([*repeats, [0.0, 0.0]])[-1] > 0.004
