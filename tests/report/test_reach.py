"""How far layers go, in words."""

from rows import PRECISION, measured, row

from harness.report.text.cautions import failure_remarks, limits_reached
from harness.results.columns import CaseResult
from harness.results.summarise import summarise
from harness.sweep_axes import Case


def run(*cases: tuple[Case, str]) -> list[CaseResult]:
    rows = []
    for case, status in cases:
        rows += measured(case, 1.0, 8) if status == "ok" else [row(case, "facts", status=status, reason="too large")]
    return summarise(rows, PRECISION)


def naive(n: int, d: int = 32) -> Case:
    return Case("attention.naive", n, d, 2)


def test_the_last_size_that_was_measured_and_the_first_that_was_not() -> None:
    lines = run((naive(64), "ok"), (naive(128), "ok"), (naive(256), "oom"))
    (said,) = failure_remarks(lines)
    assert said == "attention.naive goes as far as n = 128 (d=32 h=2 b=1); at n = 256 oom: too large"


def test_sizes_alike_in_it_are_told_together() -> None:
    lines = run(*[(naive(n, d), "ok" if n < 128 else "timeout") for n in (64, 128) for d in (32, 64)])
    assert list(limits_reached(lines)) == [
        "attention.naive goes as far as n = 64 (2 cases); at n = 128 timeout: too large"
    ]


def test_another_axis_is_told_by_its_letter() -> None:
    lines = run((naive(64, 32), "ok"), (naive(64, 64), "oom"))
    assert next(iter(limits_reached(lines))).startswith(
        "attention.naive goes as far as d = 32 (n=64 h=2 b=1); at d = 64 oom"
    )


def test_what_no_size_brings_about_is_no_reach() -> None:
    assert limits_reached(run((naive(64), "ok"), (naive(128), "error"))) == {}
    assert limits_reached(run((naive(64), "oom"), (naive(128), "oom"))) == {}
    assert limits_reached(run((naive(64), "oom"), (naive(128), "ok"))) == {}


def test_a_failure_is_told_once() -> None:
    lines = run((naive(64), "ok"), (naive(128), "oom"), (Case("rnn.elman", 64, 32, 1), "error"))
    said = failure_remarks(lines)
    assert len(said) == 2
    assert said[1].startswith("error: rnn.elman n=64")
