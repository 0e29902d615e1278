"""The rules of `check`, one by one."""

import math

import pytest

from harness.core.model.sweep_axes import Case, Setting
from harness.study.check.baseline import ClaimKept, FindingId, LawKept
from harness.study.check.check_rules import (
    Verdict,
    _growth,
    judge_claim,
    judge_count,
    judge_error,
    judge_exponent,
    judge_kernel,
    judge_law,
)
from harness.study.laws.laws import Range


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [
        (100, 100, "passed"),
        (100, 101, "regression"),
        (100, 99, "improved"),
        (100, None, "unmeasured"),
        (0, 1, "regression"),
    ],
)
def test_a_count_must_be_what_it_was(was: int, now: int | None, verdict: str) -> None:
    found = judge_count("flops", was, now)
    assert found is not None
    assert found[0].outcome == verdict


@pytest.mark.parametrize(
    ("now", "verdict"),
    [(1010, "passed"), (1011, "regression"), (990, "passed"), (989, "improved"), (2000, "regression")],
)
def test_a_peak_may_differ_by_a_hundredth(now: int, verdict: str) -> None:
    found = judge_count("peak_bytes", 1000, now)
    assert found is not None
    assert found[0].outcome == verdict


def test_what_was_never_known_is_not_judged() -> None:
    assert judge_count("flops", None, None) is None
    assert judge_kernel(None, None) is None


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [
        ("flash", "flash", "passed"),
        ("flash", "math", "regression"),
        ("flash", "ATen", "regression"),
        ("oneDNN", "ATen loop", "regression"),
        ("math", "flash", "improved"),
        ("flash", "cudnn", "undecided"),
        ("flash", None, "unmeasured"),
    ],
)
def test_a_fused_kernel_must_stay_one(was: str, now: str | None, verdict: str) -> None:
    found = judge_kernel(was, now)
    assert found is not None
    assert found[0].outcome == verdict
    assert verdict != "regression" or found[1].startswith("fused kernel lost: ")


def claim(measured: str, verdict: str) -> ClaimKept:
    return ClaimKept(claimed="O(n)", measured=measured, verdict=verdict)


def exact(value: float) -> Range:
    return Range(value, value, value)


@pytest.mark.parametrize(
    ("metric", "was", "now", "verdict"),
    [
        ("flops", exact(1.8), exact(1.8), "passed"),
        ("flops", exact(1.8), exact(1.82), "regression"),
        ("depth", exact(0.0), exact(1.0), "regression"),
        ("memory", exact(1.0), exact(1.08), "passed"),
        ("memory", exact(1.0), exact(1.3), "regression"),
        ("memory", Range(1.0, 0.6, 1.4), exact(1.45), "passed"),
        ("memory", exact(2.0), exact(1.0), "improved"),
        ("time", Range(1.0, 0.9, 1.1), Range(1.5, 1.0, 2.0), "passed"),
        ("time", Range(1.0, 0.9, 1.1), Range(1.5, 1.2, 1.8), "regression"),
        ("time", Range(1.0, 0.9, 1.1), Range(0.5, 0.2, 0.8), "improved"),
    ],
)
def test_an_exponent_must_lie_in_its_interval(metric: str, was: Range, now: Range, verdict: str) -> None:
    found = judge_exponent(metric, was, now, grown=False, eased=False)
    assert found is not None
    assert found[0].outcome == verdict


def test_an_exponent_that_was_known_to_an_order_at_most_is_undecided_unless_nothing_is_more() -> None:
    was = Range(1.2, -0.3, 3.7)
    assert judge_exponent("memory", was, exact(2.0), grown=False, eased=False) == (Verdict.UNDECIDED, "")
    assert judge_exponent("memory", was, exact(2.0), grown=False, eased=True) is None
    assert judge_exponent("time", was, exact(2.0), grown=True, eased=False) is not None


def law(exponent: Range, determined: bool, text: str = "776 n") -> LawKept:
    return LawKept(
        law=text,
        exact=determined,
        determined=determined,
        exponent_n=exponent.value,
        exponent_n_lo=exponent.lo,
        exponent_n_hi=exponent.hi,
        exponent_d=None,
        exponent_d_lo=None,
        exponent_d_hi=None,
    )


@pytest.mark.parametrize(("is_eased", "verdict"), [(False, "undecided"), (True, "passed")])
def test_growth_within_the_tolerance_of_each_size_is_undecided_if_it_may_be_of_another_power(
    is_eased: bool, verdict: str
) -> None:
    name = FindingId("own", Setting.of(Case("own", 64, 8, 1)), "memory")
    now = law(Range(0.99, 0.79, 3.19), determined=False)
    outcomes = judge_law(name, law(exact(0.99), determined=True), now, False, lambda axis: is_eased, "")
    assert [outcome.verdict.outcome for outcome in outcomes] == [verdict]


def test_a_larger_exponent_of_what_is_less_everywhere_is_no_regression() -> None:
    assert judge_exponent("flops", exact(1.8), exact(2.0), grown=False, eased=True)[0].outcome == "passed"


def test_a_smaller_exponent_of_what_is_more_is_no_improvement() -> None:
    assert judge_exponent("flops", exact(1.8), exact(1.7), grown=True, eased=False)[0].outcome == "passed"


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [
        ("confirmed", "confirmed", "passed"),
        ("refuted", "refuted", "passed"),
        ("confirmed", "refuted", "regression"),
        ("undetermined", "refuted", "regression"),
        ("confirmed", "undetermined", "undecided"),
        ("refuted", "confirmed", "improved"),
    ],
)
def test_a_claim_must_not_be_newly_refuted(was: str, now: str, verdict: str) -> None:
    assert judge_claim(claim("n", was), claim("n²", now))[0].outcome == verdict


def test_a_claim_that_has_changed_is_named_before_and_now() -> None:
    now = ClaimKept(claimed="O(n²)", measured="n", verdict="refuted")
    assert judge_claim(claim("n", "confirmed"), now)[1].startswith("O(n) was confirmed, O(n²) is refuted")


def test_a_claim_that_nobody_makes_any_more_is_not_passed() -> None:
    assert judge_claim(claim("n", "confirmed"), None)[0].outcome == "unmeasured"


@pytest.mark.parametrize(
    ("was", "now", "factor", "verdict"),
    [
        (3e-7, 3.1e-7, 4, "passed"),
        (3e-7, 1.1e-6, 4, "passed"),
        (3e-7, 1.3e-6, 4, "regression"),
        (3e-7, 1.1e-6, 2, "regression"),
        (3e-7, 5e-8, 4, "improved"),
        (0.0, 1e-8, 4, "passed"),
        (0.0, 1e-6, 4, "regression"),
        (3e-7, 1.0, math.inf, "passed"),
        (3e-7, None, 4, "undecided"),
    ],
)
def test_an_error_may_grow_by_a_factor(was: float, now: float | None, factor: float, verdict: str) -> None:
    found = judge_error("float32", was, now, factor)
    assert found is not None
    assert found[0].outcome == verdict


def test_an_error_that_the_baseline_alone_does_not_know_is_undecided() -> None:
    assert judge_error("float32", None, None, 4) is None
    finding = judge_error("float32", None, 1.0, 4)
    assert finding is not None
    assert finding[0].outcome == "undecided"


@pytest.mark.parametrize(
    ("law", "axis", "growth"),
    [
        ("2.9e-08 n/w + 1e-05", "w", (0, False)),
        ("3e-11 n²·d + page faults", "p", (0, False)),
        ("1e-06 n·log n", "l", (0, False)),
        ("1e-05 n", "e", (0, False)),
        ("3e-11 n²·d + 1e-06 n·log n", "n", (2, False)),
        ("1e-06 n·log n + 4 log n", "n", (1, True)),
    ],
)
def test_the_growth_along_an_axis_is_read_from_its_letter_alone(law: str, axis: str, growth: tuple[int, bool]) -> None:
    assert _growth(law, axis) == growth
