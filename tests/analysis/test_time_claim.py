"""Time against the work that it is claimed to take."""

from dataclasses import replace

import pytest
from analysis.fitted import fitted, law
from analysis.measured import attention, measured, verdict

from harness.analysis.claims_table import ClaimVerdict
from harness.fit.laws import Law
from harness.polynomial import Term

N2D, ND2, ND, N = Term(n=2, d=1), Term(n=1, d=2), Term(n=1, d=1), Term(n=1)


def timed(impl: str, fitted_as: Law, **options: object) -> ClaimVerdict:
    of = measured(impl, attention, **options)
    return verdict("time", of, [fitted(of, "time", fitted_as)])


def test_time_that_grows_as_the_work_does_is_confirmed() -> None:
    one = timed("attention.fused", law({ND2: 8e-12, N2D: 4e-12}))
    assert (one.claimed, one.verdict) == ("n^1.80 at n = 2048, d = 256", "confirmed")
    assert one.measured.startswith("n^1.80 (")


def test_the_reason_says_how_far_time_may_be_from_its_claim() -> None:
    one = timed("attention.fused", law({ND2: 8e-12, N2D: 4e-12}))
    assert "where the claim has 1.80 (1.67 to 1.89 as constants are), 0.1 either way, at n = 2048" in one.reason


def test_time_that_grows_otherwise_is_refuted_by_what() -> None:
    one = timed("rnn.torch", law({N: 1e-9, N2D: 4e-12}), heads=(1,))
    assert one.verdict == "refuted"
    assert one.reason == (
        "measured exponent 2.00 (2.00 to 2.00) where the claim has 1.00, 0.1 either way, at n = 2048, d = 256"
    )
    assert timed("attention.fused", law({ND2: 1e-12, Term(n=3): 1e-10})).verdict == "refuted"


@pytest.mark.parametrize("parts", [{Term(): 1e-1, ND2: 1e-12}, {Term(): 1e-3}])
def test_time_that_grows_slower_than_the_work_is_not_yet_made_of_it(parts: dict[Term, float]) -> None:
    one = timed("rnn.torch", law(parts), heads=(1,))
    assert (one.verdict, one.reason.endswith("still dominate: measure larger n")) == ("undetermined", True)


def test_a_law_that_is_not_determined_decides_nothing_of_time() -> None:
    one = timed("attention.fused", law({ND2: 8e-12, N2D: 4e-12}, doubt="n takes 2 values"))
    assert (one.verdict, one.reason.endswith("its law is not determined, n takes 2 values")) == ("undetermined", True)


def test_an_exponent_known_too_badly_decides_nothing_of_time() -> None:
    vague = law({ND2: 8e-12, N2D: 4e-12})
    one = timed("attention.fused", replace(vague, covariance=1e6 * vague.covariance))
    assert (one.verdict, "too wide" in one.reason) == ("undetermined", True)


def test_without_a_law_or_times_or_several_n_time_is_undetermined() -> None:
    of = measured("attention.fused", attention)
    assert verdict("time", of).reason == "it has no law of time"
    assert verdict("time", [replace(line, time_s=None) for line in of]).reason == "it was not timed"
    assert timed("attention.fused", law({Term(d=1): 1e-9}, varied=("d",))).reason == "n was not varied"
