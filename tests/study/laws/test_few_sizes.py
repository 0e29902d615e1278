"""Three or four sizes: terms of the exact counts come first, and a fit with as many terms as sizes decides nothing."""

import numpy as np
import pytest
from study.laws.costs import DOUBLING, grid, noisy

from harness.core.model.polynomial import Term
from harness.study.laws.fit_law import MOST_UNKNOWN_EXPONENT, fit_law
from harness.study.laws.laws import Costs, Law, Range, Sizes, exponent_at

SQUARE, LINE = (Term(), Term(n=2)), (Term(), Term(n=1))


def exponent_width(law: Law, sizes: Sizes) -> float:
    exponent = exponent_at(law, "n", sizes[np.array([-1])])
    assert exponent is not None
    return exponent.hi - exponent.lo


# Times within 0.4 % of 80 µs + 1.1e-8 n².
# The exponent at n = 512 is 2 · 1.1e-8 · 512² / (8e-5 + 1.1e-8 · 512²) = 1.946.
@pytest.mark.parametrize("times", [(260.22e-6, 798.27e-6, 2974.3e-6), (261.5e-6, 797.0e-6, 2990.0e-6)])
def test_three_sizes_of_a_constant_and_a_square_are_told_by_the_terms_of_the_counts(times: tuple[float, ...]) -> None:
    points = grid((128, 256, 512))
    law = fit_law(Costs(points, np.array(times), np.full(3, 0.005)), SQUARE)
    assert law.terms == SQUARE
    assert law.determined
    assert law.values == pytest.approx([8e-5, 1.1e-8], rel=0.01)
    exponent = exponent_at(law, "n", points[np.array([-1])])
    assert exponent is not None
    assert exponent.value == pytest.approx(1.946, abs=0.005)


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
@pytest.mark.parametrize("sizes", [(128, 256, 512), (128, 256, 512, 1024)])
@pytest.mark.parametrize(("expected", "slope"), [(SQUARE, 1.1e-8), (LINE, 3e-6)])
def test_few_sizes_are_never_determined_with_a_wrong_leading_term(
    noise: float, sizes: tuple[int, ...], expected: tuple[Term, ...], slope: float
) -> None:
    points = grid(sizes)
    for seed in range(25):
        costs = noisy(8e-5 + slope * expected[1](points), noise, seed)
        law = fit_law(Costs(points, costs, np.full(len(sizes), noise)), expected)
        assert not law.determined or law.terms[-1] == expected[1]
        assert not law.determined or exponent_width(law, points) <= MOST_UNKNOWN_EXPONENT


@pytest.mark.parametrize("sizes", [(128, 256, 512), (128, 256, 512, 1024)])
def test_at_half_a_per_cent_of_noise_few_sizes_and_the_counts_determine_a_square(sizes: tuple[int, ...]) -> None:
    points = grid(sizes)
    laws = [
        fit_law(Costs(points, noisy(8e-5 + 1.1e-8 * points.n**2, 0.005, seed), np.full(len(sizes), 0.005)), SQUARE)
        for seed in range(20)
    ]
    assert sum(law.determined for law in laws) >= 19


@pytest.mark.parametrize("expected", [(), (Term(), Term(n=1), Term(n=2))])
def test_a_law_of_as_many_terms_as_sizes_is_undetermined(expected: tuple[Term, ...]) -> None:
    points = grid((64, 128, 256), (64,))
    costs = (1e-5 + 3e-7 * points.n + 2.6e-9 * points.n**2) * np.array([1.01, 0.99, 1.005])
    assert not fit_law(Costs(points, costs, np.full(3, 0.005)), expected).determined


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("lengths", [(256, 512, 1024), (256, 512, 1024, 2048)])
@pytest.mark.parametrize("widths", [(64,), (64, 128, 256)])
@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_without_exact_counts_fewer_than_five_sizes_decide_nothing(
    noise: float, lengths: tuple[int, ...], widths: tuple[int, ...], power: float
) -> None:
    points = grid(lengths, widths)
    costs = noisy(1e-9 * points.n**power * points.d, noise, seed=0)
    law = fit_law(Costs(points, costs, np.full(len(points), max(noise, 0.001))))
    assert not law.determined
    assert law.reason.startswith(f"n takes {len(lengths)} values: a law without terms of exact counts needs 5 at least")


def test_without_exact_counts_five_sizes_may_determine_a_law() -> None:
    points = grid((128, 256, 512, 1024, 2048))
    law = fit_law(Costs(points, 1e-9 * points.n**2, np.full(5, 0.001)))
    assert law.terms == (Term(n=2),)
    assert law.determined


def test_several_widths_do_not_make_up_for_sizes_along_n() -> None:
    points = grid((64, 128, 256), (64, 128, 256, 512))
    costs = 1e-5 + 3e-7 * points.n + 2.6e-9 * points.n**2
    law = fit_law(Costs(points, costs, np.full(12, 0.005)), (Term(), Term(n=1), Term(n=2)))
    assert law.reason == "n takes 3 values, and the law has as many powers of it"


LETTERS = {"d": (64, 128, 256, 512, 1024), "h": (1, 2, 4, 8, 16), "b": (1, 2, 4, 8, 16), "w": (8, 16, 32, 64, 128)}


def sizes_along(letter: str, values: tuple[int, ...]) -> Sizes:
    """Six lengths at each of the values along one letter."""
    usual = {"d": 256, "h": 8, "b": 1}
    sizes = [(n, {**usual, letter: value}) for n in DOUBLING for value in values]
    return Sizes.of(
        (n, at["d"], at["h"], at["b"], tuple((own, at[own]) for own in at if own not in usual)) for n, at in sizes
    )


@pytest.mark.parametrize("errors", [0.002, None])
@pytest.mark.parametrize("power", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("letter", LETTERS)
def test_an_exponent_along_any_letter_has_an_interval_that_holds_the_truth(
    letter: str, number: int, power: float, errors: float | None
) -> None:
    points = sizes_along(letter, LETTERS[letter][:number])
    costs = 1e-9 * points.n * points.axis(letter) ** power
    law = fit_law(Costs(points, costs, None if errors is None else np.full(len(costs), errors)))
    exponent = exponent_at(law, letter, points[np.array([-1])])
    assert exponent is not None
    assert exponent.lo <= power <= exponent.hi
    if number < 5 and law.determined:
        needs = "a law needs 3" if number < 3 else "a law without terms of exact counts needs 5"
        assert law.reason == f"{letter} takes {number} values: {needs} at least"


def test_two_widths_tell_the_exponent_of_terms_of_exact_counts_unless_two_powers_stand_side_by_side() -> None:
    points = grid(d=(64, 128))
    square = fit_law(Costs(points, 1e-9 * points.n * points.d**2, np.full(12, 0.005)), (Term(), Term(n=1, d=2)))
    exponent = exponent_at(square, "d", points[np.array([-1])])
    assert exponent is not None
    assert (exponent.lo, exponent.hi) == (pytest.approx(2, abs=0.01), pytest.approx(2, abs=0.01))
    assert square.reason == ""
    both = (Term(n=1, d=1), Term(n=1, d=2))
    law = fit_law(Costs(points, 1e-9 * points.n * (points.d**2 + 64 * points.d), np.full(12, 0.005)), both)
    assert law.determined
    assert law.reason == "d takes 2 values, and the law has as many powers of it"
    assert exponent_at(law, "d", points[np.array([-1])]) == Range(pytest.approx(5 / 3), -np.inf, np.inf)


def test_a_wide_exponent_is_the_reason_of_an_undetermined_law() -> None:
    points = grid((128, 256, 512))
    law = fit_law(Costs(points, 1e-6 * points.n * np.array([1.0, 0.9, 1.0]), np.full(3, 0.05)), LINE)
    assert exponent_width(law, points) > MOST_UNKNOWN_EXPONENT
    assert law.reason.startswith("its exponent along n may be")
