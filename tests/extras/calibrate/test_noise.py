"""The noise floor, on synthetic measurements with known noise."""

import math

import numpy as np
import pytest

from harness.extras.calibrate.measure import noise_floor, noise_floor_between

# The 95 % quantile of |x − y| for independent normal x, y of standard deviation 1, and the 60 % quantile.
Q95, Q60 = 1.959964 * math.sqrt(2), 0.841621 * math.sqrt(2)


def blocks(draws: np.random.Generator, sigma: float, number: int, copies: int = 3) -> np.ndarray:
    """Times of cases of very different length, each with the same log-normal noise."""
    lengths = np.exp(draws.uniform(-9, 0, (number, 1)))
    return lengths * np.exp(sigma * draws.standard_normal((number, copies)))


@pytest.mark.parametrize("sigma", [0.002, 0.02, 0.2])
def test_known_noise_gives_back_its_floor(sigma: float) -> None:
    found = noise_floor(blocks(np.random.default_rng(1), sigma, 1000))
    assert math.log1p(found.floor) == pytest.approx(Q95 * sigma, rel=0.08)
    assert math.log1p(found.visible) == pytest.approx((Q95 + Q60) * sigma, rel=0.08)
    assert (found.ratios, found.blocks) == (3000, 1000)


def test_a_slow_down_of_the_visible_size_crosses_the_floor_four_times_in_five() -> None:
    draws = np.random.default_rng(2)
    found = noise_floor(blocks(draws, 0.03, 1000))
    noise = 0.03 * (draws.standard_normal(20_000) - draws.standard_normal(20_000))
    for slow_down, share in ((found.visible, 0.8), (found.floor, 0.5), (0.0, 0.025)):
        crossed = noise + math.log1p(slow_down) > math.log1p(found.floor)
        assert crossed.mean() == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("kind", ["normal", "exponential"])
def test_the_interval_holds_the_true_floor_about_as_often_as_its_docstring_says(kind: str) -> None:
    draws = np.random.default_rng(3)

    def logs(number: int) -> np.ndarray:
        shape = (number, 3)
        return 0.02 * (draws.standard_normal(shape) if kind == "normal" else draws.standard_exponential(shape))

    many = logs(60_000)
    truth = math.expm1(float(np.quantile(np.abs(many[:, 0] - many[:, 1]), 0.95)))
    found = [noise_floor(np.exp(logs(18))) for _ in range(40)]
    assert np.median([one.floor for one in found]) == pytest.approx(truth, rel=0.12)
    assert np.mean([one.lo <= truth <= one.hi for one in found]) > 0.7
    assert all(one.lo <= one.floor <= one.hi for one in found)


def test_the_floor_of_six_blocks_is_as_rough_as_its_docstring_says() -> None:
    draws = np.random.default_rng(5)
    found = [noise_floor(blocks(draws, 0.02, 6)) for _ in range(200)]
    ratios = np.array([one.floor for one in found]) / math.expm1(Q95 * 0.02)
    assert np.mean((ratios > 0.5) & (ratios < 1.6)) > 0.8
    assert 0.35 < np.mean([one.lo <= math.expm1(Q95 * 0.02) <= one.hi for one in found]) < 0.65
    assert {(one.ratios, one.blocks) for one in found} == {(18, 6)}


def test_equal_measurements_have_no_noise() -> None:
    found = noise_floor([[2.0, 2.0], [3.0, 3.0, 3.0]])
    assert (found.floor, found.visible, found.lo, found.hi, found.ratios) == (0, 0, 0, 0, 4)


def test_of_a_single_pair_it_is_their_ratio_and_has_no_interval() -> None:
    found = noise_floor([[1.0, 1.25], [1.0]])
    assert found.floor == pytest.approx(0.25)
    assert (found.lo, found.hi, found.ratios, found.blocks) == (None, None, 1, 1)


def test_without_a_pair_there_is_no_floor() -> None:
    with pytest.raises(ValueError, match="two measurements"):
        noise_floor([[1.0], []])


def test_what_differs_only_between_repeats_is_no_noise_within_them() -> None:
    cases = [[[1.0, 1.0], [1.1, 1.1]], [[5.0, 5.0], [5.5, 5.5]]]
    assert noise_floor([times for repeats in cases for times in repeats]).floor == 0
    assert noise_floor_between(cases) == pytest.approx(0.1)


def test_a_single_repeat_says_nothing_of_others() -> None:
    assert noise_floor_between([[[1.0, 1.2]]]) is None
