"""Baselines made of numbers that the test chooses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rows import usual_lines

from harness.core.model.sweep_axes import Case, Setting
from harness.core.results.columns import COUNTS, CaseResult
from harness.study.check.baseline import TIMED, Baseline, Facts, FindingId, LawKept, baseline_of
from harness.study.check.check import judge_baseline
from harness.study.check.check_rules import Outcome
from harness.study.laws.laws import Range


def group(case: Case) -> tuple[str, Setting]:
    """The impl and setting of a case of a layer without own axes."""
    return case.impl, Setting.of(case)


IMPL = "attention.fused"
CASES = tuple(Case(IMPL, n, 128, 2) for n in (256, 512, 1024))
TIME = FindingId(*group(CASES[0]), TIMED)
MEMORY = FindingId(*group(CASES[0]), "memory")
MACHINE = {"cpu": {"model": "some cpu", "usable": 2}, "torch": {"version": "2.13.0", "gpu": None}, "python": "3.11.7"}


def usual() -> list[CaseResult]:
    """A run's lines, with counts beside times and peaks."""
    return [replace(line, flops=8 * line.seq_len * line.d_model**2, depth=5, ops=14) for line in usual_lines()]


def usual_baseline() -> Baseline:
    """What `baseline` makes of them."""
    lines = usual()
    return baseline_of(lines, MACHINE, seed=3, harness="0.1.0")


def facts_of(status: str, reason: str | None = None) -> Facts:
    """Facts of which nothing else is known."""
    return Facts.of(replace(usual_lines()[0], status=status, reason=reason, backend=None, **dict.fromkeys(COUNTS)))


def with_counts(facts: Facts, **counts: Any) -> Facts:
    """The facts with other counts. Other values are those of its fields."""
    return facts.model_copy(update=counts)


def facts(case: Case) -> Facts:
    """Of a layer whose memory is linear."""
    n, d = case.seq_len, case.d_model
    work = 8 * n * d * d + 4 * n * n * d
    counts = {"flops": work, "flops_full": work, "ops": 14, "depth": 5, "peak_bytes": 16 * n * d}
    return with_counts(facts_of("ok"), backend="flash", **counts)


def law(value: float, lo: float | None = None, hi: float | None = None, determined: bool = True) -> LawKept:
    """A law whose cost grows with n like this."""
    exponent = Range(value, value if lo is None else lo, hi or value)
    return LawKept(
        law="some n",
        exact=lo is None,
        determined=determined,
        exponent_n=exponent.value,
        exponent_n_lo=exponent.lo,
        exponent_n_hi=exponent.hi,
        **dict.fromkeys(("exponent_d", "exponent_d_lo", "exponent_d_hi")),
    )


def baseline(of: Callable[[Case], Facts] = facts, **changed: Any) -> Baseline:
    """Of `CASES`, whose memory grows like n, and time as n^1.5 to n^1.7."""
    laws = {MEMORY: law(1.0), TIME: law(1.6, 1.5, 1.7)}
    held = Baseline("0.1.0", "2.13.0", 0, {}, {case: of(case) for case in CASES}, laws, {})
    return replace(held, **changed)


def wanting(was: Baseline, now: Baseline, timed: bool = True) -> list[Outcome]:
    """What did not simply pass."""
    return [outcome for outcome in judge_baseline(was, now, CASES, timed) if outcome.verdict.outcome != "passed"]
