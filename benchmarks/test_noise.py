import math

import numpy as np
import pytest

from benchmarks.peers.noise import error_interval, errors, ratio_interval, rms


def noisy(sigma: float, repeats: int = 8, seed: int = 0) -> np.ndarray:
    """Times of twelve cases with log-normal noise, (repeats, cases)."""
    return np.exp(sigma * np.random.default_rng(seed).standard_normal((repeats, 12)))


def test_the_error_is_the_spread_of_log_time_whatever_the_case_takes() -> None:
    times = np.array([[1.0, 100.0], [math.e, 100.0 * math.e]])
    assert errors(times) == pytest.approx([math.sqrt(0.5)] * 2)


def test_times_that_repeat_have_no_error_and_one_repeat_shows_none() -> None:
    assert errors(np.full((3, 2), 7.0)) == pytest.approx([0, 0])
    assert np.isnan(errors(np.full((1, 2), 7.0))).all()


def test_rms_weighs_large_errors_more_than_a_mean() -> None:
    assert rms(np.array([3.0, 4.0])) == pytest.approx(math.sqrt(12.5))


def test_the_ratio_is_against_the_best_peer() -> None:
    low, high = ratio_interval(noisy(0.02), {"bad": noisy(0.8, seed=1), "good": noisy(0.1, seed=2)})
    assert low < 0.2 < high
    assert high < 0.4


def test_methods_that_share_the_machines_moods_are_compared_repeat_by_repeat() -> None:
    moods = np.random.default_rng(3).standard_normal((8, 1))
    low, high = ratio_interval(np.exp(0.01 * moods), {"peer": np.exp(0.04 * moods)})
    assert (low, high) == pytest.approx((0.25, 0.25))


def test_two_repeats_give_no_interval_of_the_ratio() -> None:
    assert np.isnan(ratio_interval(noisy(0.1, 2), {"peer": noisy(0.1, 2)})).all()


def test_the_interval_of_an_error_holds_it_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        low, high = error_interval(rms(errors(noisy(0.05, repeats=3, seed=seed))), repeats=3, cases=12)
        held += low <= 0.05 <= high
    assert 0.86 <= held / 400 <= 0.94


def test_one_repeat_gives_no_interval_of_the_error() -> None:
    assert np.isnan(error_interval(0.1, repeats=1, cases=3)).all()
