"""Predictions: close where the law goes on, and an interval that holds what comes."""

import numpy as np
import pytest
from study.laws.costs import attention, grid, noisy

from harness.study.laws.integer_laws import exact_law
from harness.study.laws.laws import Costs, Sizes
from harness.study.laws.piecewise import predictor

SEEN = grid((64, 128, 256, 512), (128, 256))


def true(n: int, d: int) -> float:
    return float(attention(Sizes.of([(n, d, 8, 1)]), 1e11)[0])


def test_a_law_that_goes_on_is_predicted_four_times_beyond() -> None:
    off = []
    for seed in range(20):
        predict = predictor(Costs(SEEN, noisy(attention(SEEN, 1e11), 0.03, seed)))
        said = predict(2048, 256, 8)
        assert said.lo <= said.value <= said.hi
        off.append(abs(said.value / true(2048, 256) - 1))
    assert np.median(off) < 0.1


def test_intervals_hold_nine_in_ten_at_least_inside_and_four_times_beyond() -> None:
    for n in (200, 2048):
        held = []
        for seed in range(60):
            predict = predictor(Costs(SEEN, noisy(attention(SEEN, 1e11), 0.05, seed)))
            said = predict(n, 256, 8)
            held.append(said.lo <= true(n, 256) <= said.hi)
        assert np.mean(held) >= 0.9


def test_the_farther_outside_the_wider() -> None:
    predict = predictor(Costs(SEEN, noisy(attention(SEEN, 1e11), 0.03, 1)))
    widths = [said.hi / said.lo for said in (predict(n, 256, 8) for n in (512, 1024, 2048, 8192))]
    assert widths == sorted(widths)
    assert predict.outside(Sizes.of([(512, 256, 8, 1)])) == 0
    assert predict.outside(Sizes.of([(1024, 256, 8, 1)])) >= 1
    assert predict.outside(Sizes.of([(512, 1024, 8, 1)])) >= 2


def test_costs_whose_law_broke_before_are_predicted_with_less_certainty() -> None:
    steady = noisy(attention(SEEN, 1e11), 0.01, 2)
    broken = steady * np.where(SEEN.n >= 256, 3.0, 1.0)
    calm, wary = (predictor(Costs(SEEN, costs))(2048, 256, 8) for costs in (steady, broken))
    assert wary.hi / wary.lo > 2 * calm.hi / calm.lo


def test_an_exact_law_predicts_exactly_inside_alone() -> None:
    costs = [int(8 * n * n + 16 * n * d) for n, d in zip(SEEN.n, SEEN.d, strict=True)]
    law = exact_law(SEEN, costs)
    assert law is not None
    predict = predictor(Costs(SEEN, np.array(costs, float)), law=law)
    inside, outside = predict(300, 256, 8), predict(4096, 256, 8)
    assert (inside.lo, inside.value, inside.hi) == (8 * 300**2 + 16 * 300 * 256,) * 3
    # Three doublings out another phase of the layer may have taken over, or a window may have ended.
    assert outside.value == pytest.approx(8 * 4096**2 + 16 * 4096 * 256)
    up = outside.hi / outside.value
    assert up == pytest.approx(outside.value / outside.lo)
    assert 1.5 < up < 2


@pytest.mark.parametrize("points", [grid((64,)), grid((64, 128))])
def test_of_one_or_two_sizes_there_is_a_prediction_and_it_is_wide(points: Sizes) -> None:
    said = predictor(Costs(points, attention(points, 1e11)))(1024, 256, 8)
    assert said.lo < said.value < said.hi


def test_a_prediction_lies_among_what_the_law_and_its_rivals_say_nearest_to_those_that_fit_best() -> None:
    costs = noisy(attention(SEEN, 1e11), 0.1, 3)
    predict = predictor(Costs(SEEN, costs))
    laws = (predict.law, *predict.law.rivals)
    assert len(laws) > 1
    said = [float(law(Sizes.of([(2048, 256, 8, 1)]))[0]) for law in laws]
    assert min(said) < predict(2048, 256, 8).value < max(said)
    alone = predictor(Costs(SEEN, attention(SEEN, 1e11)))
    assert alone.law.rivals == ()
    assert alone(2048, 256, 8).value == pytest.approx(true(2048, 256))


def test_law_and_rivals_together_err_less_than_the_law_alone() -> None:
    together, alone = [], []
    for seed in range(40):
        predict = predictor(Costs(SEEN, noisy(attention(SEEN, 1e11), 0.1, seed)))
        together.append(abs(np.log(predict(2048, 256, 8).value / true(2048, 256))))
        alone.append(abs(np.log(predict.law(Sizes.of([(2048, 256, 8, 1)]))[0] / true(2048, 256))))
    assert np.mean(together) < np.mean(alone)
