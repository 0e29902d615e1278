"""A planted break is found where it is; a bend is none."""

import numpy as np
import pytest
from study.laws.costs import attention, grid, noisy

from harness.core.model.polynomial import Term
from harness.study.laws.laws import Costs, Floats, Sizes, candidate_terms, varying_axes
from harness.study.laws.piecewise import find_break, fit_pieces

POINTS = grid(d=(128, 256), h=(2, 8))


def break_of(costs: Floats, sizes: Sizes = POINTS) -> float | None:
    found = find_break(Costs(sizes, costs), candidate_terms(varying_axes(sizes)))
    return found.n if found else None


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("at", [512, 1024])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_another_kernel_from_some_n_on_is_found_at_that_n(noise: float, at: int, factor: float) -> None:
    costs = attention(POINTS, 1e11) * np.where(POINTS.n >= at, factor, 1.0)
    found = find_break(Costs(POINTS, noisy(costs, noise, 7)), candidate_terms(varying_axes(POINTS)))
    assert found is not None
    assert found.n == at


def test_page_faults_paid_from_some_n_on_are_found() -> None:
    faults = np.where(POINTS.n >= 1024, 3e-9 * POINTS.h * POINTS.n**2, 0.0)
    assert break_of(noisy(attention(POINTS, 1e11) + faults, 0.02, 1)) == 1024


def test_two_laws_of_one_term_each_are_told_from_one_law_of_three() -> None:
    assert break_of(1e-8 * POINTS.n * POINTS.d * np.where(POINTS.n >= 512, 3.0, 1.0)) == 512


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03, 0.1, 0.3])
def test_a_law_that_only_bends_has_no_break(noise: float) -> None:
    for seed in range(20):
        assert break_of(noisy(attention(POINTS, 1e11), noise, seed)) is None
        assert break_of(noisy(1e-5 + 1e-7 * POINTS.n, noise, seed)) is None


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
def test_a_law_of_four_terms_has_no_break_either(noise: float) -> None:
    costs = 2e-4 + (8 * POINTS.n * POINTS.d**2 + 4 * POINTS.n**2 * POINTS.d) / 1e11 + 3e-10 * POINTS.h * POINTS.n**2
    assert sum(break_of(noisy(costs, noise, seed)) is not None for seed in range(20)) <= 1


def test_the_law_beyond_a_break_is_that_of_its_points_alone() -> None:
    points = grid((64, 128, 256, 512, 1024, 2048, 4096, 8192))
    costs = np.where(points.n >= 512, 2e-9 * points.n**2, 5e-6 * points.n)
    law = fit_pieces(Costs(points, costs))
    assert [found.n for found in law.breaks] == [512]
    assert law.terms == (Term(n=2),)
    assert law.determined


def test_without_a_break_it_is_the_law_of_all() -> None:
    law = fit_pieces(Costs(POINTS, attention(POINTS, 1e11)))
    assert law.breaks == ()
    assert law.terms == (Term(), Term(n=1, d=2), Term(n=2, d=1))


def test_a_step_of_five_per_cent_is_found_where_points_scatter_by_one() -> None:
    points = grid(range(64, 4097, 64))
    costs = noisy(1e-6 * points.n * np.where(points.n >= 1536, 1.05, 1.0), 0.01, 4)
    assert [found.n for found in fit_pieces(Costs(points, costs)).breaks] == [1536]


def test_a_hump_has_two_breaks() -> None:
    points = grid(range(64, 4097, 64))
    costs = noisy(1e-6 * points.n * np.where((points.n > 500) & (points.n < 1500), 1.5, 1.0), 0.01, 4)
    assert [found.n for found in fit_pieces(Costs(points, costs)).breaks] == [512, 1536]


@pytest.mark.parametrize("seed", range(5))
def test_a_power_that_no_term_has_is_no_break(seed: int) -> None:
    points = grid(range(64, 4097, 64))
    assert fit_pieces(Costs(points, noisy(1e-6 * points.n**1.2, 0.01, seed))).breaks == ()
