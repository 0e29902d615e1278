import numpy as np
import pytest

from harness.stats.interval import LEVEL, low_quantile, reach


def test_up_to_five_trials_the_low_quantile_is_the_fastest() -> None:
    for number in range(1, 6):
        assert low_quantile(np.arange(1.0, number + 1)) == 1.0


def test_of_more_trials_it_stays_at_its_level_where_the_minimum_would_fall() -> None:
    rng = np.random.default_rng(0)
    for number in (6, 12, 60):
        found = low_quantile(np.sort(rng.random((20_000, number)), axis=1))
        assert found.mean() == pytest.approx(LEVEL, abs=0.01)


def test_the_reach_scales_with_the_lower_trials_and_ignores_the_upper_ones() -> None:
    logs = np.array([0.0, 0.01, 0.02, 0.03, 0.5, 0.6])
    down, up = reach(logs)
    assert down > up > 0
    assert reach(2 * logs) == pytest.approx((2 * down, 2 * up))
    assert reach(np.array([0.0, 0.01, 0.02, 0.03, 5.0, 6.0])) == (down, up)


def test_more_trials_of_the_same_noise_reach_less_far() -> None:
    rng = np.random.default_rng(0)
    widths = []
    for number in (3, 6, 12, 60):
        down, up = reach(np.sort(rng.standard_normal((5_000, number)), axis=1))
        widths.append(float(np.median(down + up)))
    assert widths == sorted(widths, reverse=True)
