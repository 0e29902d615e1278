"""What counted work is made of, and what one token more adds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.claims import WorkTerm, work_of_next_token, work_text

ATTENTION = [WorkTerm(8, 1, 2), WorkTerm(4, 2, 1)]


def value(terms: list[WorkTerm], n: int, d: int) -> float:
    return sum(term.coefficient * n**term.n * d**term.d for term in terms)


def test_one_token_more_of_attention_meets_all_before_and_is_projected() -> None:
    assert work_text(work_of_next_token(ATTENTION)) == "8nd + 8d² − 4d"


def test_one_token_more_of_a_recurrent_layer_is_one_step_whatever_is_paid_once() -> None:
    assert work_text(work_of_next_token([WorkTerm(12, 1, 2), WorkTerm(-2, 0, 2)])) == "12d²"


PARTS = st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 3), st.integers(0, 3))


@given(
    st.lists(PARTS.map(lambda parts: WorkTerm(*parts)), max_size=4),
    st.integers(1, 5000),
    st.integers(1, 500),
)
def test_it_is_the_difference_of_the_work_exactly(terms: list[WorkTerm], n: int, d: int) -> None:
    assert value(work_of_next_token(terms), n, d) == value(terms, n, d) - value(terms, n - 1, d)


def test_work_with_a_logarithm_has_no_such_formula() -> None:
    assert work_of_next_token([WorkTerm(4, 1, 1, log=1)]) == []


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (WorkTerm(1, 1, 1), "nd"),
        (WorkTerm(1, 0, 0), "1"),
        (WorkTerm(12345678, 2, 0, h=1), "12345678hn²"),
        (WorkTerm(8, 2, 1, h=-1), "8n²d/h"),
    ],
)
def test_terms_are_written_as_theory_writes_them(term: WorkTerm, text: str) -> None:
    assert str(term) == text
