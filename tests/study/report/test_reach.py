"""How far layers go, in words."""

from rows import PRECISION, measured, row

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.study.report.text.cautions import limits_reached


def run(*cases: tuple[Case, str]) -> list[CaseResult]:
    rows = []
    for case, status in cases:
        rows += measured(case, 1.0, 8) if status == "ok" else [row(case, "facts", status=status, reason="too large")]
    return summarise(rows, PRECISION)


def naive(n: int, d: int = 32) -> Case:
    return Case("attention.naive", n, d, 2)


def test_what_no_size_brings_about_is_no_reach() -> None:
    assert limits_reached(run((naive(64), "ok"), (naive(128), "error"))) == {}
    assert limits_reached(run((naive(64), "oom"), (naive(128), "oom"))) == {}
    assert limits_reached(run((naive(64), "oom"), (naive(128), "ok"))) == {}
