"""A fitted law has the terms that the costs were made of, or says that it cannot tell."""

import itertools

import numpy as np
import pytest
from study.laws.costs import DOUBLING, attention, grid, law_name, noisy

from harness.core.model.polynomial import Term
from harness.study.laws.fit_law import fit_law, left_out_errors
from harness.study.laws.laws import Costs, Sizes, candidate_terms, shrunken_errors

ATTENTION = {Term(n=1, d=2): 8e-13, Term(n=2, d=1): 4e-13}
THREE_WIDTHS = (512, 1024, 2048)


def errors(law: object, truth: dict[Term, float] = ATTENTION) -> list[float]:
    found = {c.term: c.value for c in law.coefficients}
    return [abs(found.get(term, 0.0) / value - 1) for term, value in truth.items()]


@pytest.mark.parametrize(("noise", "sizes"), [(0.0, DOUBLING), (0.01, DOUBLING), (0.03, range(64, 2049, 64))])
def test_both_terms_of_attention_are_recovered_within_five_per_cent_and_never_as_n_log_n(
    noise: float, sizes: range
) -> None:
    points = grid(sizes, THREE_WIDTHS)
    for seed in range(20):
        law = fit_law(Costs(points, noisy(attention(points), noise, seed)))
        assert max(errors(law)) < 0.05
        assert all(term.log == 0 for term in law.terms if term.n)


def test_without_noise_a_law_is_its_formula() -> None:
    points = grid(d=THREE_WIDTHS)
    law = fit_law(Costs(points, attention(points)))
    assert law.terms == (Term(), Term(n=1, d=2), Term(n=2, d=1))
    assert law.determined
    assert law_name(law) == "O(1 + n·d² + n²·d)"
    beyond = Sizes.of([(4096, 512, 1, 1)])
    assert law(beyond)[0] == pytest.approx(attention(beyond)[0], rel=1e-9)


@pytest.mark.parametrize(
    ("term", "called"),
    [
        (Term(), "O(1)"),
        (Term(log=1), "O(log n)"),
        (Term(n=1), "O(n)"),
        (Term(n=1, log=1), "O(n·log n)"),
        (Term(n=2), "O(n²)"),
        (Term(n=3), "O(n³)"),
    ],
)
def test_each_single_law_is_named(term: Term, called: str) -> None:
    points = grid((16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192))
    assert law_name(fit_law(Costs(points, noisy(3e-6 * term(points), 0.003, 1)))) == called


def test_a_law_is_never_named_wrongly_whatever_the_noise() -> None:
    points = grid(range(64, 1025, 64))
    terms = [Term(), Term(log=1), Term(n=1), Term(n=1, log=1), Term(n=2), Term(n=3)]
    for noise in (0.01, 0.03, 0.1):
        for seed, term in enumerate(terms):
            law = fit_law(Costs(points, noisy(term(points), noise, seed)))
            assert not law.determined or max(law.terms) == term


def test_noise_that_hides_the_law_makes_it_undetermined_and_says_between_what() -> None:
    points = grid()
    law = fit_law(Costs(points, noisy(points.n * 1e-6, 0.3, 3)))
    assert not law.determined
    assert "do not tell" in law.reason or "may be" in law.reason
    assert law_name(law) == "undetermined"


def test_two_sizes_are_too_few() -> None:
    points = grid((64, 128), (256, 512))
    law = fit_law(Costs(points, attention(points)))
    assert not law.determined
    assert law.reason == "n takes 2 values: a law needs 3 at least"


def test_a_law_of_as_many_terms_as_points_does_not_depend_on_how_costs_are_rounded() -> None:
    points = grid((64, 128, 256), (64,))
    costs = (3e-7 * points.n + 2.6e-9 * points.n**2) * np.array([1.01, 0.99, 1.005])
    laws = [
        fit_law(Costs(points, costs * (1 + 1e-15 * np.array(off)))) for off in itertools.product((-1, 0, 1), repeat=3)
    ]
    assert {law.terms for law in laws} == {(Term(), Term(n=1), Term(n=2))}
    assert {law.cv_error for law in laws} == {None}


def test_a_size_left_out_is_not_predicted_if_the_others_leave_terms_open() -> None:
    sizes = np.array([64.0, 128.0, 256.0])
    two_terms, three_terms = (np.stack([sizes**power for power in range(terms)], axis=1) for terms in (2, 3))
    target, groups = np.array([1.0, 2.1, 3.9]), np.arange(3)
    assert np.isfinite(left_out_errors(two_terms, target, groups)).all()
    assert np.isinf(left_out_errors(three_terms, target, groups)).all()


def test_a_bend_that_was_not_reached_is_not_denied() -> None:
    # n² is a thirtieth of the cost at the largest n measured, and the noise as large.
    points = grid((16, 32, 64, 128))
    law = fit_law(Costs(points, noisy(points.n * 1e-6 * (1 + points.n / 4096), 0.03, 0)))
    assert not law.determined


def test_coefficients_are_never_negative_and_lie_in_their_intervals() -> None:
    points = grid(d=(128, 256))
    for seed in range(10):
        law = fit_law(Costs(points, noisy(attention(points, 1e11), 0.1, seed)))
        assert all(0 <= c.lo <= c.value <= c.hi for c in law.coefficients)


def test_the_intervals_of_coefficients_hold_the_truth_nineteen_times_in_twenty() -> None:
    points = grid(range(64, 2049, 128), THREE_WIDTHS)
    held = [
        c.lo <= ATTENTION[c.term] <= c.hi
        for seed in range(100)
        for c in fit_law(Costs(points, noisy(attention(points), 0.02, seed))).coefficients
        if c.term in ATTENTION
    ]
    assert len(held) == 200
    assert 0.90 <= np.mean(held) <= 0.99


def test_a_point_that_is_known_badly_says_little() -> None:
    points = grid()
    costs = points.n * 1e-6
    costs[3] *= 3
    errors = np.where(np.arange(6) == 3, 1.0, 0.0)
    law = fit_law(Costs(points, costs, errors), (Term(), Term(n=1), Term(n=2)))
    assert max(law.terms) == Term(n=1)
    assert law(Sizes.of([(2048, 256, 1, 1)]))[0] == pytest.approx(2048e-6, rel=0.02)


def test_spreads_are_drawn_halfway_to_their_median() -> None:
    assert shrunken_errors(np.array([0.01, 0.04, 0.16])) == pytest.approx([0.02, 0.04, 0.08])
    assert (shrunken_errors(np.zeros(3)) > 0).all()


def test_expected_terms_are_kept_while_they_explain_the_costs_and_given_up_when_they_do_not() -> None:
    points = grid()
    expected = (Term(), Term(n=1))
    kept = fit_law(Costs(points, noisy(points.n * 1e-6, 0.02, 5)), expected)
    assert set(kept.terms) <= set(expected)
    given_up = fit_law(Costs(points, noisy(points.n**2 * 1e-9, 0.02, 5)), expected)
    assert Term(n=2) in given_up.terms or Term(n=3) in given_up.terms


def test_every_law_is_made_of_candidates() -> None:
    points = grid(d=(128, 256), h=(2, 8), b=(1, 4))
    law = fit_law(Costs(points, points.b * points.n * points.d**2 * 1e-12 + 1e-5))
    assert law.terms == (Term(), Term(n=1, d=2, b=1))
    assert set(law.terms) <= set(candidate_terms(law.varied))


@pytest.mark.parametrize("costs", [[], [1.0, 0.0], [1.0, -1.0]])
def test_costs_that_are_none_or_nothing_are_refused(costs: list[float]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        fit_law(Costs(Sizes.of([(64, 1, 1, 1), (128, 1, 1, 1)][: len(costs)]), np.array(costs)))


def test_a_law_of_points_known_badly_is_not_sure_that_nothing_hides() -> None:
    points = grid(d=(128, 256))
    costs = noisy(1e-6 * points.n + 2e-10 * points.n**2, 0.005, 0)
    law = fit_law(Costs(points, costs, np.full(len(points), 0.3)), (Term(), Term(n=1), Term(n=2)))
    assert not law.determined or Term(n=2) in law.terms


def test_points_that_follow_no_law_are_said_to_follow_none() -> None:
    points = grid(d=(64, 128, 256, 512))
    costs = 2e-11 * points.n * points.d**2 * np.where(points.d >= 256, 3.0, 1.0)
    law = fit_law(Costs(points, noisy(costs, 0.01, 0), np.full(len(points), 0.01)))
    assert not law.determined
    assert law.reason == "points lie further from this law than their accuracy allows"


def test_a_small_constant_beside_large_terms_keeps_its_interval() -> None:
    points = grid(range(64, 2049, 64))
    law = fit_law(Costs(points, noisy(1e-4 + 4e-13 * points.n**2, 0.03, 2)))
    constant = next(c for c in law.coefficients if c.term == Term())
    assert constant.hi - constant.lo == pytest.approx(2 * 2.04 * 2.4e-6 * (16 / 32) ** 0.5, rel=0.7)


@pytest.mark.parametrize("stated", [0.02, 0.14, 0.25, 0.5])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.08, 0.14])
def test_a_law_that_misses_its_points_is_never_determined_however_noisy_they_are(noise: float, stated: float) -> None:
    points = grid(d=(128, 256), h=(2, 8))
    # A cost that jumps where the scores of all heads exceed a size, which no term follows.
    costs = 5e-11 * points.n**2 * points.d * np.where(points.h * points.n**2 > 2**21, 2.6, 1.0)
    for seed in range(20):
        law = fit_law(Costs(points, noisy(costs, noise, seed), np.full(len(points), stated)))
        assert not law.determined or np.sqrt(np.mean((law(points) / costs - 1) ** 2)) < 0.25


def test_the_reason_says_how_far_a_law_misses_and_whether_the_times_are_too_uncertain_to_tell() -> None:
    points = grid(d=(128, 256), h=(2, 8))
    costs = 5e-11 * points.n**2 * points.d * np.where(points.h * points.n**2 > 2**21, 2.6, 1.0)
    law = fit_law(Costs(points, costs, np.full(len(points), 0.3)))
    assert law.reason == "it misses the points by 28 %: the times are too uncertain to tell"
    assert fit_law(Costs(points, costs)).reason == "it misses the points by 28 %"
    law = fit_law(Costs(points, costs, np.full(len(points), 0.099)))
    assert law.reason == "points lie further from this law than their accuracy allows"
