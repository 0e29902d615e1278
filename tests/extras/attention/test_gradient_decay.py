"""How fast something fades with distance, on numbers whose rate is known."""

import math

import numpy as np
import pytest

from harness.extras.attention.pictures import FLOOR, decay

DISTANCE = np.arange(101)


def exponential(rate: float, seeds: int = 8, noise: float = 0.0) -> np.ndarray:
    """(seeds, 101), with log-normal noise of its own for each seed's rate and each point."""
    draws = np.random.default_rng(0)
    rates = math.log(rate) + noise / 10 * draws.standard_normal((seeds, 1))
    return 3.0 * np.exp(rates * DISTANCE + noise * draws.standard_normal((seeds, 101)))


@pytest.mark.parametrize("rate", [0.2, 0.61, 0.999, 1.0, 1.3])
def test_what_each_step_keeps_is_found_exactly_without_noise(rate: float) -> None:
    found = decay(exponential(rate))
    assert found.rate.value == pytest.approx(rate)
    assert found.rate.lo == pytest.approx(rate)
    assert found.rate.hi == pytest.approx(rate)
    assert found.halves is None
    assert (found.fitted, found.reach, found.ends, found.underflows) == (100, 100, False, False)


def test_half_is_left_after_as_many_steps_as_its_logarithm_says() -> None:
    assert decay(exponential(0.5)).rate.half_distance == pytest.approx(1.0)
    assert decay(exponential(1.1)).rate.half_distance == math.inf


def test_the_interval_between_seeds_holds_the_rate_and_narrows_with_more_of_them() -> None:
    few, many = (decay(exponential(0.7, seeds, noise=0.3)).rate for seeds in (4, 64))
    assert few.lo < 0.7 < few.hi
    assert many.lo < 0.7 < many.hi
    assert many.hi - many.lo < few.hi - few.lo


def test_one_seed_has_a_rate_and_no_interval() -> None:
    rate = decay(exponential(0.7, seeds=1)).rate
    assert rate.value == pytest.approx(0.7)
    assert (rate.lo, rate.hi) == (0.0, math.inf)


def test_what_comes_from_the_place_itself_has_no_say() -> None:
    norms = exponential(0.7)
    norms[:, 0] *= 1e6
    assert decay(norms).rate.value == pytest.approx(0.7)


def test_beyond_what_a_float_can_hold_there_is_no_line() -> None:
    norms = exponential(1e-4)
    found = decay(norms)
    assert norms[0, -1] == 0
    assert found.rate.value == pytest.approx(1e-4)
    assert found.underflows
    assert norms[0, found.fitted] >= FLOOR > norms[0, found.fitted + 1]


def test_where_it_ends_sharply_the_line_ends_and_the_reach_is_told() -> None:
    norms = exponential(0.9)
    norms[:, 33:] = 0
    found = decay(norms)
    assert found.rate.value == pytest.approx(0.9)
    assert (found.fitted, found.reach, found.ends, found.underflows) == (32, 32, True, False)


def test_too_few_distances_have_no_rate_and_still_a_reach() -> None:
    norms = exponential(0.9)
    norms[:, 3:] = 0
    found = decay(norms)
    assert (found.rate, found.reach, found.ends) == (None, 2, True)


def test_where_nothing_reaches_anywhere_there_is_no_rate() -> None:
    found = decay(np.zeros((2, 9)))
    assert (found.rate, found.reach, found.underflows) == (None, 0, False)


def test_gaps_end_the_line_and_not_the_reach() -> None:
    norms = exponential(0.9)
    norms[:, 7::7] = 0
    found = decay(norms)
    assert (found.fitted, found.reach, found.ends, found.underflows) == (6, 100, False, False)


def test_fast_near_and_slow_far_is_not_one_rate() -> None:
    norms = exponential(0.5) + 1e-3 * exponential(0.97)
    near, far = decay(norms).halves
    assert near < far == pytest.approx(0.97, abs=0.01)


def test_a_wavering_line_is_still_one_rate() -> None:
    assert decay(exponential(0.7, noise=0.5)).halves is None


def test_what_grows_beyond_all_numbers_does_not_break_the_fit() -> None:
    found = decay(np.array([np.full(101, 1.0), np.full(101, 1e300)]) * exponential(1.0, seeds=2))
    assert found.rate.value == pytest.approx(1.0)
