"""How far an interval of a case alone reaches."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from harness.core.stats.interval import FEWEST_FREE, LEVEL, end_ranks, half_widths, log_distances_to_ends, low_quantile


def reach(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances down and up of rows (cases, N) of log times."""
    down, up = log_distances_to_ends(np.sort(values, axis=1))
    return down, up


def test_the_reach_scales_with_the_lower_trials_and_ignores_the_upper_ones() -> None:
    logs = np.array([[0.0, 0.01, 0.02, 0.03, 0.5, 0.6]])
    down, up = reach(logs)
    assert down > up > 0
    assert reach(2 * logs) == (pytest.approx(2 * down), pytest.approx(2 * up))
    assert reach(np.array([[0.0, 0.01, 0.02, 0.03, 5.0, 6.0]])) == (down, up)


def test_more_trials_of_the_same_noise_reach_less_far() -> None:
    rng = np.random.default_rng(0)
    widths = []
    for number in (3, 6, 12, 60):
        down, up = reach(rng.standard_normal((5_000, number)))
        widths.append(float(np.median(down + up)))
    assert widths == sorted(widths, reverse=True)


def test_a_single_trial_reaches_to_infinity_even_beside_cases_with_more() -> None:
    ordered = np.array([[0.0, np.inf, np.inf, np.inf], [0.0, 0.05, 0.1, 0.2]])
    down, up = log_distances_to_ends(ordered, np.array([1, 4]))
    assert (down[0], up[0]) == (math.inf, math.inf)
    assert 0 < up[1] < down[1] < 1


@pytest.mark.parametrize("number", [FEWEST_FREE, 40, 60, 400])
@pytest.mark.parametrize("draw", [np.random.Generator.standard_normal, np.random.Generator.standard_exponential])
def test_many_trials_hold_the_quantile_95_times_in_100_whatever_their_noise(number: int, draw: Callable) -> None:
    rng = np.random.default_rng(7)
    ordered = np.sort(draw(rng, (4_000, number)), axis=1)
    truth = float(np.quantile(draw(rng, 1_000_000), LEVEL))
    value, (down, up) = low_quantile(ordered), log_distances_to_ends(ordered)
    assert ((value - down <= truth) & (truth <= value + up)).mean() == pytest.approx(0.955, abs=0.015)


def test_ends_are_ranks_that_the_binomial_distribution_gives() -> None:
    for number in (FEWEST_FREE, 60, 1_000):
        lower, upper = end_ranks(number)
        assert 1 <= lower < LEVEL * number < upper < number
        # The rank below the lower end is missed in at most 2.5 %, the next one in more; likewise at the upper end.
        assert binom.cdf(math.floor(lower) - 1, number, LEVEL) <= 0.025 < binom.cdf(math.floor(lower), number, LEVEL)
        assert binom.sf(math.ceil(upper) - 1, number, LEVEL) <= 0.025 < binom.sf(math.ceil(upper) - 2, number, LEVEL)


def test_the_interval_hardly_changes_from_multiples_to_ranks() -> None:
    rng = np.random.default_rng(0)
    many = np.sort(rng.standard_normal((20_000, FEWEST_FREE)), axis=1)
    few = np.sort(rng.standard_normal((20_000, FEWEST_FREE - 1)), axis=1)
    widths = [float(np.median(sum(log_distances_to_ends(ordered)))) for ordered in (few, many)]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)


def test_the_half_width_after_each_value_is_that_of_the_values_until_then() -> None:
    rng = random.Random(0)
    values = [math.exp(rng.gauss(0, 0.05)) for _ in range(70)]
    found = list(half_widths(values, [True] * 70, least=1))
    assert found[0] == math.inf
    for number in range(2, len(values) + 1):
        widest = float(np.max(reach(np.log([values[:number]]))))
        assert found[number - 1] == pytest.approx(math.exp(widest) - 1, rel=1e-9)


def test_fewer_values_than_are_asked_for_have_no_width() -> None:
    assert list(half_widths([1.0, 1.0, 1.0, 1.0], [True] * 4, least=3)) == [math.inf, math.inf, 0.0, 0.0]


def test_values_too_far_apart_for_any_number_are_infinitely_wide() -> None:
    assert list(half_widths([1e-300, 1e300], [True] * 2, least=1)) == [math.inf, math.inf]
