"""How far an interval reaches, and that it does not matter in which of two ways that is found."""

import numpy as np
import pytest

from harness.stats import interval
from harness.stats.interval import LEVEL


def test_of_many_trials_the_four_that_matter_give_what_all_of_them_give() -> None:
    for number in (100, 128):
        assert interval._of_four(number) == pytest.approx(interval._whole(number), rel=0.03)


def test_between_the_numbers_of_trials_that_are_simulated_the_multiples_lie_on_a_line() -> None:
    for number in (151, 500, 7_000):
        assert interval.interval_factors(number) == pytest.approx(interval._of_four(number), rel=0.02)


def test_the_multiples_fall_without_a_step_where_the_way_changes() -> None:
    found = np.array([interval.interval_factors(number) for number in (116, 122, 128, 134, 140)])
    assert (np.diff(found, axis=0) < 0).all()
    assert (found[1:] / found[:-1] > 0.93).all()


def test_an_interval_of_hundreds_of_trials_holds_the_quantile_95_times_in_100() -> None:
    number = 400
    draws = np.sort(np.random.default_rng(7).standard_normal((4_000, number)), axis=1)
    down, up = interval.interval_factors(number)
    rank = LEVEL * (number + 1)
    below = int(rank)
    value = draws[:, below - 1] + (rank - below) * (draws[:, below] - draws[:, below - 1])
    distance = draws[:, interval.lower_part_size(number) - 1] - draws[:, 0]
    truth = -0.9674215661017009  # one normal number in six is lower
    held = (value - down * distance <= truth) & (truth <= value + up * distance)
    assert held.mean() == pytest.approx(0.95, abs=0.012)
