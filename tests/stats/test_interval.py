"""How far an interval of a case alone reaches."""

import math
import random

import numpy as np
import pytest

from harness.stats.interval import half_widths, log_distances_to_ends, spread


def reach(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances down and up of rows (cases, N) of log times."""
    ordered = np.sort(values, axis=1)
    return log_distances_to_ends(spread(ordered), np.full(len(ordered), ordered.shape[1]))


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
    down, up = log_distances_to_ends(np.array([0.0, 0.1]), np.array([1, 4]))
    assert (down[0], up[0]) == (math.inf, math.inf)
    assert 0 < up[1] < down[1] < 1


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
