import math

import pytest

from harness.scaling.slope import Point, fitted_slope, slope_between


def exact(cost) -> list[Point]:
    return [Point(n, cost(n), cost(n), cost(n)) for n in (64, 128, 256, 512, 1024, 2048)]


@pytest.mark.parametrize("power", [0, 1, 2, 3])
def test_a_power_of_n_has_its_exponent_and_no_doubt(power: int) -> None:
    slope = fitted_slope(exact(lambda n: 3.0 * n**power))
    assert (slope.slope, slope.lo, slope.hi) == pytest.approx((power, power, power), abs=1e-9)


def test_attentions_cost_bends_from_one_to_two_around_n_equal_to_2d() -> None:
    d = 256
    points = exact(lambda n: 8.0 * n * d * d + 4.0 * n * n * d)
    whole, small, large = fitted_slope(points), slope_between(*points[:2]), slope_between(*points[-2:])
    assert 1.1 < small.slope < 1.3
    assert 1.65 < large.slope < 1.8
    assert small.slope < whole.slope < large.slope
    assert whole.hi - whole.lo > 0.2  # one straight line does not fit, and its interval says so


def test_the_interval_of_a_noisy_slope_holds_the_truth_and_is_not_wider_than_its_points_allow() -> None:
    small, large = Point(100, 1.0, 0.9, 1.1), Point(200, 2.0, 1.8, 2.2)
    slope = slope_between(small, large)
    assert slope.slope == pytest.approx(1.0)
    assert (slope.lo, slope.hi) == pytest.approx((math.log2(1.8 / 1.1), math.log2(2.2 / 0.9)))


def test_a_point_without_bounds_leaves_the_slope_without_bounds() -> None:
    slope = slope_between(Point(1, 1.0, 0.0, math.inf), Point(2, 2.0, 0.0, math.inf))
    assert (slope.slope, slope.lo, slope.hi) == (pytest.approx(1.0), -math.inf, math.inf)


def test_two_points_are_a_slope_and_one_is_none() -> None:
    points = exact(float)
    assert fitted_slope(points[:2]) == slope_between(*points[:2])
    with pytest.raises(ValueError, match="at least two sizes"):
        fitted_slope(points[:1])
