"""Memory and time against how fast they grow at the largest sizes."""

from dataclasses import replace

import pytest
from findings.fitted import fitted, law
from findings.measured import Cost, attention, measured, verdict

from harness.claims import parse
from harness.findings.growth_claims import judge_memory
from harness.findings.verdicts import Verdict
from harness.scaling.law import Law
from harness.scaling.terms import Term

N2D, ND2, ND, N = Term(n=2, d=1), Term(n=1, d=2), Term(n=1, d=1), Term(n=1)


def test_memory_of_the_claimed_order_is_confirmed_whatever_its_constants() -> None:
    one = verdict("memory", measured("attention.packed", memory=lambda n, d, h: 8 * h * n * n + 16 * n * d + 5 * n))
    assert (one.claimed, one.verdict) == ("O(hn² + nd)", "confirmed")
    assert one.measured == "n^1.96·d^0.02·h^0.94"
    assert "words for each claimed" in one.reason


@pytest.mark.parametrize(
    ("memory", "axis"),
    [
        (lambda n, d, h: 4 * n * n + 16 * n * d, "n"),
        (lambda n, d, h: 16 * n * d * d, "d"),
        (lambda n, d, h: 16 * n * d * h, "h"),
    ],
)
def test_memory_that_grows_faster_than_claimed_is_refuted_by_the_axis(memory: Cost, axis: str) -> None:
    one = verdict("memory", measured("attention.fused", memory=memory))
    assert one.verdict == "refuted"
    assert one.reason.startswith(f"{axis}: ")


def test_memory_that_grows_slower_than_claimed_is_refuted() -> None:
    one = verdict("memory", measured("attention.packed", memory=lambda n, d, h: 16 * n * d))
    assert one.verdict == "refuted"
    assert one.reason == "n: 1.00 where the claim has 1.98, between n = 1024 and n = 2048"


def test_memory_still_rising_towards_its_claim_is_undetermined() -> None:
    one = verdict("memory", measured("attention.fused", memory=lambda n, d, h: 16 * n * d + 10**7))
    assert one.verdict == "undetermined"
    assert "n: 0.37 where the claim has 1.00, and still rising: larger n would tell" in one.reason
    assert "d: 0.37 where the claim has 1.00: two d cannot tell" in one.reason


def test_memory_is_not_confirmed_along_an_axis_that_was_not_varied() -> None:
    one = verdict("memory", measured("attention.fused", memory=lambda n, d, h: 16 * n * d, widths=(128,)))
    assert (one.verdict, one.measured) == ("undetermined", "n^1.00·h^0.00")
    assert one.reason.startswith("d was not varied")


def test_an_exponent_that_hangs_on_the_constants_confirms_nothing() -> None:
    def memory(n: int, d: int, h: int) -> int:
        return n**4 + n * d

    found = judge_memory(measured("their:Layer", memory=memory, sizes=(4, 8)), parse("n⁴ + nd"))
    assert (found.verdict, "or anything from 1.83 to 2.74" in found.reason) == ("undetermined", True)


def test_memory_that_nobody_knows_is_undetermined() -> None:
    one = verdict("memory", [replace(line, peak_bytes=None) for line in measured("attention.fused")])
    assert (one.verdict, one.reason) == ("undetermined", "its peak memory is not known")


def timed(impl: str, fitted_as: Law, **options: object) -> Verdict:
    of = measured(impl, attention, **options)
    return verdict("time", of, [fitted(of, "time", fitted_as)])


def test_time_that_grows_as_the_work_does_is_confirmed() -> None:
    one = timed("attention.fused", law({ND2: 8e-12, N2D: 4e-12}))
    assert (one.claimed, one.verdict) == ("n^1.80 at n = 2048, d = 256", "confirmed")
    assert one.measured.startswith("n^1.80 (")


def test_time_that_grows_otherwise_is_refuted_by_what() -> None:
    one = timed("rnn.torch", law({N: 1e-9, N2D: 4e-12}), heads=(1,))
    assert one.verdict == "refuted"
    assert one.reason == "measured exponent 2.00 (2.00 to 2.00) where the claim has 1.00, at n = 2048, d = 256"
    assert timed("attention.fused", law({ND2: 1e-12, Term(n=3): 1e-10})).verdict == "refuted"


@pytest.mark.parametrize("parts", [{Term(): 1e-1, ND2: 1e-12}, {Term(): 1e-3}])
def test_time_that_grows_slower_than_the_work_is_not_yet_made_of_it(parts: dict[Term, float]) -> None:
    one = timed("rnn.torch", law(parts), heads=(1,))
    assert (one.verdict, one.reason.endswith("still weigh: larger n would tell")) == ("undetermined", True)


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
