"""The signed-rank test against scipy's, and its interval against what it promises."""

import math

import numpy as np
import pytest
from scipy.stats import wilcoxon

from harness.extras.compare.paired_evidence import (
    p_value_above,
    p_value_below,
    pseudomedian,
    signed_rank_interval,
    walsh_averages,
)


@pytest.mark.parametrize("number", [1, 5, 8, 13, 40])
@pytest.mark.parametrize("value", [-0.4, 0.0, 0.3])
def test_p_is_that_of_the_exact_test(number: int, value: float) -> None:
    x = np.random.default_rng(number).standard_normal(number)
    above = wilcoxon(x - value, alternative="greater", method="exact").pvalue
    below = wilcoxon(x - value, alternative="less", method="exact").pvalue
    assert p_value_above(walsh_averages(x), value) == pytest.approx(above, rel=1e-9)
    assert p_value_below(walsh_averages(x), value) == pytest.approx(below, rel=1e-9)


def test_what_is_exactly_the_value_counts_for_nobody() -> None:
    averages = walsh_averages([0.0, 0.0, 1.0, 2.0])
    assert p_value_above(averages, 0.0) >= p_value_above(averages, -1e-9)
    assert p_value_below(averages, 0.0) >= p_value_below(averages, 1e-9)
    assert p_value_above(walsh_averages([1.0] * 6), 1.0) == p_value_below(walsh_averages([1.0] * 6), 1.0) == 1.0


def test_ties_never_make_it_cry_wolf() -> None:
    rng = np.random.default_rng(0)
    rounded = np.round(rng.standard_normal((2000, 10)))
    called = [p_value_above(walsh_averages(x), 0.0) <= 0.05 for x in rounded]
    assert np.mean(called) <= 0.05


def test_the_middle_is_that_of_all_averages_of_two() -> None:
    assert list(walsh_averages([4.0, 1.0, 2.0])) == [1.0, 1.5, 2.0, 2.5, 3.0, 4.0]
    assert pseudomedian(walsh_averages([4.0, 1.0, 2.0])) == 2.25
    assert pseudomedian(walsh_averages([1.0, 1.1, 0.9, 1.0, 50.0])) == pytest.approx(1.05, abs=0.06)


@pytest.mark.parametrize("number", [8, 12, 20])
@pytest.mark.parametrize("tails", [1, 2, 100])
def test_its_interval_holds_the_truth_as_often_as_it_says(number: int, tails: int) -> None:
    rng = np.random.default_rng(number + tails)
    held = []
    for x in 3.0 + rng.standard_t(tails, size=(1000, number)):
        lo, hi = signed_rank_interval(walsh_averages(x), 0.05)
        held.append(lo <= 3.0 <= hi)
    # Four standard errors of a thousand draws.
    assert np.mean(held) >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 1000)


def test_the_interval_is_what_the_test_does_not_reject() -> None:
    averages = walsh_averages(np.random.default_rng(1).standard_normal(15))
    lo, hi = signed_rank_interval(averages, 0.05)
    assert p_value_above(averages, lo - 1e-9) <= 0.025 < p_value_above(averages, lo + 1e-9)
    assert p_value_below(averages, hi + 1e-9) <= 0.025 < p_value_below(averages, hi - 1e-9)


def test_of_too_few_blocks_the_interval_has_no_end() -> None:
    assert signed_rank_interval(walsh_averages([1.0, 1.1, 1.2, 1.3, 1.4]), 0.05) == (-math.inf, math.inf)
    assert signed_rank_interval(walsh_averages([1.0, 1.1, 1.2, 1.3, 1.4, 1.5]), 0.05) == (1.0, 1.5)
