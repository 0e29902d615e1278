"""Comparisons made of numbers that the test chooses."""

import math
from dataclasses import replace
from typing import Any

from rows import PRECISION, row

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import Blocks, MeasuredBlocks
from harness.extras.compare.report import Comparison, compare_sides

RULES = Rules()
CASE = Case("attention.fused", seq_len=64, d_model=16, num_heads=2, allocator="steady")


def blocks(ratio: float, again: float | None = None, number: int = 24, failure: str | None = None) -> Blocks:
    """Of a case; `again` is the ratio of its second measurement."""
    return Blocks(_logs(ratio, number), [] if again is None else _logs(again, number), again is not None, failure)


def _logs(ratio: float, number: int) -> list[float]:
    return [math.log(ratio) + 1e-3 * (i - (number - 1) / 2) for i in range(number)]


def line(case: Case, status: str = "ok", reason: str | None = None, **facts: Any) -> CaseResult:
    """Verified, its facts taken, not timed."""
    if status != "ok":
        rows = [row(case, "verify", status=status, reason=reason)]
    else:
        rows = [row(case, "verify"), row(case, "facts", **{"peak_bytes": 10_000, "flops": 1000, **facts})]
    return summarise(rows, PRECISION)[0]


def cases(number: int) -> list[Case]:
    return [replace(CASE, seq_len=64 * (i + 1)) for i in range(number)]


def comparison(measured: list[Blocks], control: Blocks | None = None) -> Comparison:
    """Of as many cases, all measured; the first is the control."""
    them = cases(len(measured))
    lines = {case: line(case) for case in them}
    return compare_sides(
        [(case, case) for case in them],
        range(len(them)),
        MeasuredBlocks(measured, {0: control or blocks(1.0)}),
        lines,
        lines,
        RULES,
    )


def of_lines(base: CaseResult | None, head: CaseResult | None, timed: Blocks | None) -> Comparison:
    """Of one case with these facts, timed or not."""
    measured = MeasuredBlocks([timed], {0: blocks(1.0)}) if timed else MeasuredBlocks([], {})
    return compare_sides(
        [(CASE, CASE)],
        [0] if timed else [],
        measured,
        {CASE: base} if base else {},
        {CASE: head} if head else {},
        RULES,
    )


def beside_a_timed_pair(base: CaseResult, head: CaseResult) -> Comparison:
    """Of two pairs: `CASE`, which was timed, and another case with these lines, which was not."""
    return compare_sides(
        [(CASE, CASE), (base.case, head.case)],
        [0],
        MeasuredBlocks([blocks(1.0)], {0: blocks(1.0)}),
        {CASE: line(CASE), base.case: base},
        {CASE: line(CASE), head.case: head},
        RULES,
    )
