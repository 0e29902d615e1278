import math
from collections.abc import Callable

import numpy as np
import pytest

from harness.study.laws.crossovers import CostRatio, Overtaking, find_overtaking, ratio_at

SIZES = (64, 128, 256, 512, 1024)
LINEAR = {n: 100.0 * n for n in SIZES}


def gaps(values: list[float], reach: float | list[float] = 0.1) -> list[CostRatio]:
    reaches = [reach] * len(values) if isinstance(reach, float) else reach
    return [CostRatio(n, v, v - r, v + r) for n, v, r in zip(SIZES, values, reaches, strict=False)]


def exactly(cost: dict[int, float]) -> Overtaking:
    """Of a cost over the linear one, both known to the last digit."""
    return find_overtaking([ratio_at(n, (value,) * 3, (LINEAR[n],) * 3) for n, value in cost.items()])


def test_a_cost_above_from_the_start_is_so_at_every_size() -> None:
    assert exactly({n: 101.0 * n for n in SIZES}) == Overtaking(0.0, 0.0, 0.0)


def test_a_cost_that_ends_below_or_alike_never_overtakes() -> None:
    assert exactly({n: 99.0 * n for n in SIZES}).n is None
    assert exactly(LINEAR).n is None


def test_what_counts_is_where_it_stays_above_for_good() -> None:
    found = exactly({64: 9e9, 128: 1.0, 256: 1.0, 512: 1.0, 1024: 9e9})
    assert found.n is not None
    assert 512 < found.n < 1024


def test_between_two_sizes_of_exact_costs_the_crossing_is_a_guess() -> None:
    found = find_overtaking([ratio_at(n, (0.5 * n**2,) * 3, (100.0 * n,) * 3) for n in SIZES])
    assert (found.n, found.lo, found.hi) == (pytest.approx(200), 128, 256)


def test_a_crossing_lies_between_where_the_interval_leaves_one_side_and_where_it_has_reached_the_other() -> None:
    # The gap rises by log 2 from size to size and is 0 at 256; its interval by a quarter of that to either side.
    step = math.log(2)
    found = find_overtaking(gaps([-2 * step, -step, 0.0, step, 2 * step], step / 4))
    assert (found.n, found.lo, found.hi) == (pytest.approx(256), 128, 512)


def test_of_several_crossings_the_last_counts() -> None:
    found = find_overtaking(gaps([1.0, -1.0, 1.0, -1.0, 1.0]))
    assert found.lo == 512 < found.n < found.hi == 1024


def test_a_cost_surely_above_at_every_size_is_so_from_0_on() -> None:
    assert find_overtaking(gaps([0.2] * 5)) == Overtaking(0.0, 0.0, 0.0)


def test_a_cost_surely_below_at_the_largest_size_does_not_overtake_below_it() -> None:
    assert find_overtaking(gaps([0.5, 0.5, 0.5, -0.5, -0.5])) == Overtaking(None, 1024, None)
    assert find_overtaking(gaps([0.0] * 5, 0.0)) == Overtaking(None, 1024, None)


def test_a_crossing_that_noise_alone_could_make_is_undecided() -> None:
    # Surely above at the largest sizes only; at the small ones neither.
    found = find_overtaking(gaps([-0.05, 0.05, -0.05, 0.2, 0.2]))
    assert (found.n, found.lo, found.hi) == (None, 0.0, 512)


def test_a_largest_size_that_is_undecided_leaves_the_crossing_undecided() -> None:
    found = find_overtaking(gaps([-0.5, -0.5, -0.5, -0.05, 0.05]))
    assert (found.n, found.lo, found.hi) == (None, 256, None)
    assert find_overtaking(gaps([0.05] * 5)) == Overtaking(None, 0.0, None)


def test_a_size_measured_once_bounds_nothing() -> None:
    found = find_overtaking(gaps([-1.0, -1.0, 0.3, 1.0, 1.0], [0.1, 0.1, math.inf, 0.1, 0.1]))
    assert (found.lo, found.hi) == (pytest.approx(128), pytest.approx(512))
    assert find_overtaking(gaps([-1.0, 1.0], [math.inf, math.inf])) == Overtaking(None, 0.0, None)


def test_the_interval_of_a_ratio_is_made_of_both() -> None:
    found = ratio_at(64, (2.0, 2.0 * math.exp(-0.3), 2.0 * math.exp(0.4)), (1.0, math.exp(-0.3), math.exp(0.4)))
    assert found.value == pytest.approx(math.log(2))
    assert found.value - found.lo == pytest.approx(0.5)
    assert found.hi - found.value == pytest.approx(0.5)
    assert ratio_at(64, (2.0, 0.0, math.inf), (1.0, 1.0, 1.0)) == CostRatio(64, math.log(2), -math.inf, math.inf)


def test_without_a_common_size_there_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="both costs are known"):
        find_overtaking([])


TWELVE = tuple(int(n) for n in np.round(np.geomspace(64, 4096, 12)))


@pytest.mark.parametrize("error", [0.0, 0.005, 0.02])
@pytest.mark.parametrize(
    ("sizes", "before", "after"),
    [((64, 128, 256, 512, 1024, 2048), 512, 1024), ((512, 1024), 512, 1024), (TWELVE, 619, 903)],
)
@pytest.mark.parametrize(
    "cost",
    [
        lambda n: 1.4 * (n / 800) ** 0.3 * (1 if n >= 800 else 0.5),  # a jump
        lambda n: (n + n**2 / 400) / 2400,  # a bend, equal at 800
        lambda n: 2 * 2 ** -(-math.log2(n / 800) // 1) / 2.5,  # doubles after 800 · 2ᵏ
    ],
)
def test_a_crossing_lies_anywhere_between_the_neighbouring_sizes(
    cost: Callable[[float], float], sizes: tuple[int, ...], before: int, after: int, error: float
) -> None:
    ratios = [cost(n) for n in sizes]
    costs = [(ratio, ratio * math.exp(-error), ratio * math.exp(error)) for ratio in ratios]
    found = find_overtaking([ratio_at(n, one, (1.0,) * 3) for n, one in zip(sizes, costs, strict=True)])
    assert (found.lo, found.hi) == (before, after)
    assert found.n is not None
    assert found.lo < found.n < found.hi
