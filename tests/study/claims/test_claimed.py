"""How fast a claim grows, its constants free."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import usual_lines

from harness.core.layers.layer_lookup import CLAIMS
from harness.core.model.polynomial import Polynomial, Term, parse
from harness.study.claims.claim_rules import FREE_FACTOR, exponent_at
from harness.study.claims.claims_table import claims_of

ATTENTION = parse("8nd² + 4n²d")


def test_the_exponent_of_attention_bends_from_1_to_2_around_n_equal_to_2d() -> None:
    at = [exponent_at(ATTENTION, "n", (n, 256, 8, 1, ())).value for n in (1, 512, 2048, 10**6)]
    assert at == [pytest.approx(1.0, abs=2e-3), 1.5, 1.8, pytest.approx(2.0, abs=1e-3)]


def test_a_claim_of_one_term_leaves_nothing_open() -> None:
    found = exponent_at(parse("hn²"), "n", (64, 16, 2, 1, ()))
    assert (found.lo, found.value, found.hi) == (2.0, 2.0, 2.0)
    assert exponent_at(parse("hn²"), "h", (64, 16, 2, 1, ())).lo == 1.0


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(st.floats(1 / FREE_FACTOR, FREE_FACTOR), st.integers(2, 4000), st.integers(1, 2000))
def test_the_range_holds_the_exponent_whatever_one_term_costs_more_than_the_other(times: float, n: int, d: int) -> None:
    million = 10**6
    scaled = Polynomial({Term(n=1, d=2): 8 * million, Term(n=2, d=1): round(4 * million * times)})
    at = exponent_at(ATTENTION, "n", (n, d, 1, 1, ()))
    assert at.lo - 1e-6 <= exponent_at(scaled, "n", (n, d, 1, 1, ())).value <= at.hi + 1e-6


def test_log_n_itself_grows() -> None:
    # d (n log n) / dn · n / (n log n) = 1 + 1 / ln n
    assert exponent_at(parse("n·log n"), "n", (512, 16, 1, 1, ())).value == pytest.approx(1 + 1 / math.log(512))


def test_what_is_taken_off_and_what_is_nothing_do_not_grow() -> None:
    assert exponent_at(parse("12nd² − 2d²"), "n", (64, 16, 1, 1, ())).value == 1.0
    assert exponent_at(parse("0"), "n", (64, 16, 1, 1, ())).value == 0.0
    assert [ATTENTION.growth(axis) for axis in "ndh"] == [(2, 0), (2, 0), (0, 0)]


def test_our_claims_are_those_of_the_registry_and_others_those_of_their_rows() -> None:
    line = usual_lines()[0]
    ours = claims_of([line])
    assert set(ours) == set(CLAIMS)
    assert ours["work"] == "8nd² + 4n²d"
    theirs = replace(line, impl="their:Layer")
    assert claims_of([theirs]) == {}
    assert claims_of([theirs, replace(theirs, claims='{"depth": "n"}')]) == {"depth": "n"}
