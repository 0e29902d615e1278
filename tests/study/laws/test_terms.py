"""Terms: what they are worth, how they grow, how they are written."""

import numpy as np
import pytest
from study.laws.costs import grid

from harness.core.model.polynomial import Term
from harness.study.laws.laws import Sizes, candidate_terms, design, varying_axes

AT = Sizes.of([(1024, 32, 4, 2)])


@pytest.mark.parametrize(
    ("term", "value", "written"),
    [
        (Term(), 1, "1"),
        (Term(n=2, d=1), 1024**2 * 32, "n²·d"),
        (Term(n=1, d=2, b=1), 2 * 1024 * 32**2, "b·n·d²"),
        (Term(n=1, log=1), 1024 * 10, "n·log n"),
        (Term(h=1, n=2), 4 * 1024**2, "h·n²"),
        (Term(n=1, d=1, h=-1), 1024 * 8, "n·d/h"),
    ],
)
def test_a_term_has_its_value_and_is_written_as_theory_writes_it(term: Term, value: float, written: str) -> None:
    assert term(AT)[0] == value
    assert str(term) == written


def test_a_terms_exponent_is_its_power_and_a_logarithm_adds_a_little() -> None:
    assert Term(n=2, d=1).exponent("n", 1024) == 2
    assert Term(n=2, d=1).exponent("d", 1024) == 1
    # d log(n log n) / d log n = 1 + 1 / ln n
    assert Term(n=1, log=1).exponent("n", 1024) == pytest.approx(1 + 1 / np.log(1024))


def test_only_axes_with_two_values_vary() -> None:
    assert varying_axes(grid(d=(128, 256))) == ("n", "d")
    assert varying_axes(grid(n=(64,))) == ()


def test_candidates_that_fall_together_stand_once() -> None:
    for axes in [("n",), ("n", "d"), ("n", "d", "h"), ("n", "d", "h", "b"), ()]:
        terms = candidate_terms(axes)
        assert len(set(terms)) == len(terms)
        assert all(getattr(term, axis) == 0 for term in terms for axis in {"n", "d", "h", "b"} - set(axes))
    assert candidate_terms(()) == (Term(),)


def test_with_batches_each_term_may_be_paid_once_or_a_sequence() -> None:
    assert {Term(n=1, d=2), Term(n=1, d=2, b=1)} <= set(candidate_terms(("n", "d", "b")))


def test_a_design_has_a_row_a_point_and_a_column_a_term() -> None:
    assert design((Term(), Term(n=1)), grid()).shape == (6, 2)
