"""Sums of terms: what they are worth, how they are added and written, and what one token more adds."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.model.polynomial import Polynomial, Term, parse


def test_one_token_more_of_attention_meets_all_before_and_is_projected() -> None:
    assert str(parse("8nd² + 4n²d").difference().by_growth()) == "8nd + 8d² − 4d"


def test_one_token_more_of_a_recurrent_layer_is_one_step_whatever_is_paid_once() -> None:
    assert str(parse("12nd² − 2d²").difference()) == "12d²"


TERMS = st.builds(Term, n=st.integers(0, 3), d=st.integers(0, 3))
SUMS = st.dictionaries(TERMS, st.integers(-(10**6), 10**6), max_size=4).map(Polynomial)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SUMS, st.integers(1, 5000), st.integers(1, 500))
def test_it_is_the_difference_of_the_work_exactly(work: Polynomial, n: int, d: int) -> None:
    assert work.difference()(n, d) == work(n, d) - work(n - 1, d)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SUMS, SUMS, st.integers(1, 5000), st.integers(1, 500))
def test_sums_differences_and_products_have_the_values_of_theirs(a: Polynomial, b: Polynomial, n: int, d: int) -> None:
    one, other = a(n, d), b(n, d)
    assert ((a + b)(n, d), (a - b)(n, d), (a * b)(n, d)) == (one + other, one - other, one * other)
    assert str(a - a) == "0"


def test_work_with_a_logarithm_has_no_such_formula() -> None:
    assert Polynomial({Term(n=1, d=1, log=1): 4}).difference() is None


@pytest.mark.parametrize(
    ("term", "value", "text"),
    [
        (Term(n=1, d=1), 1, "nd"),
        (Term(), 1, "1"),
        (Term(n=2, h=1), 12345678, "12345678hn²"),
        (Term(n=2, d=1, h=-1), 8, "8n²d/h"),
        (Term(n=1, d=1, log=1), 4, "4nd·log n"),
        (Term(log=1), 4, "4·log n"),
        (Term(h=-2), -1, "−1/h²"),
    ],
)
def test_terms_are_written_as_theory_writes_them(term: Term, value: int, text: str) -> None:
    assert str(Polynomial({term: value})) == text
    assert parse(text).coefficients == {term: value}


def test_a_formula_that_repeats_a_term_is_written_as_its_sum() -> None:
    assert str(parse("8nd² + 4n²d + 16nd² − 4d²")) == "24nd² + 4n²d − 4d²"
