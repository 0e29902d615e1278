import pytest

from harness.scaling.crossover import crossover

SIZES = (64, 128, 256, 512, 1024)
LINEAR = {n: 100.0 * n for n in SIZES}


def test_a_quadratic_cost_overtakes_a_linear_one_where_the_curves_meet() -> None:
    assert crossover({n: 0.5 * n**2 for n in SIZES}, LINEAR) == pytest.approx(200.0)


def test_a_cost_above_from_the_start_is_so_from_the_smallest_size() -> None:
    assert crossover({n: 101.0 * n for n in SIZES}, LINEAR) == 64


def test_a_cost_that_ends_below_never_overtakes() -> None:
    assert crossover({n: 99.0 * n for n in SIZES}, LINEAR) is None
    assert crossover(LINEAR, LINEAR) is None


def test_what_counts_is_where_it_stays_above_for_good() -> None:
    bumpy = {64: 9e9, 128: 1.0, 256: 1.0, 512: 1.0, 1024: 9e9}
    assert 512 < crossover(bumpy, LINEAR) < 1024


def test_only_sizes_known_of_both_are_compared() -> None:
    assert crossover({64: 1.0}, {128: 1.0}) is None
    assert crossover({64: 2.0, 128: 1.0}, {64: 1.0}) == 64
