import numpy as np
import pytest

from harness.core.stats.interval import LEVEL, low_quantile


def test_up_to_five_trials_the_low_quantile_is_the_fastest() -> None:
    for number in range(1, 6):
        assert low_quantile(np.arange(1.0, number + 1)) == 1.0


def test_of_more_trials_it_stays_at_its_level_where_the_minimum_would_fall() -> None:
    rng = np.random.default_rng(0)
    for number in (6, 12, 60):
        found = low_quantile(np.sort(rng.random((20_000, number)), axis=1))
        assert found.mean() == pytest.approx(LEVEL, abs=0.01)


def test_of_the_first_of_each_row_it_is_what_they_alone_give() -> None:
    values = np.sort(np.random.default_rng(0).random((40, 40)), axis=1)
    numbers = np.arange(1, 41)
    known = np.where(np.arange(40) < numbers[:, None], values, np.inf)
    assert low_quantile(known, numbers).tolist() == [
        float(low_quantile(row[:number])) for row, number in zip(values, numbers, strict=True)
    ]
