"""Lines of a run with many layers, made of numbers that the test chooses."""

from collections.abc import Sequence
from dataclasses import replace

from rows import lines

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from impls.registry import IMPLS

SIZES = (64, 128, 256, 512)
_NOTHING = dict.fromkeys(("time_s", "time_lo_s", "time_hi_s", "peak_bytes"))


def many_lines(impls: Sequence[str] | None = None) -> list[CaseResult]:
    """Of all registered layers, or those named: each costs a little more than the one before."""
    impls = list(IMPLS) if impls is None else impls
    cases = [Case(impl, n, 32, 2 if _has_heads(impl) else 1) for impl in impls for n in SIZES]
    rank = {impl: 1 + i for i, impl in enumerate(impls)}
    found = lines(cases, lambda case: 1e-6 * case.seq_len * rank[case.impl], lambda case: 64 * case.seq_len)
    return [replace(line, family=line.impl.split(".")[0], time_lo_s=line.time_s * 0.9) for line in found]


def without(lines: Sequence[CaseResult], impl: str, status: str, reason: str, from_n: int = 0) -> list[CaseResult]:
    """The lines with an impl's failed from some n on."""
    return [
        replace(line, status=status, reason=reason, **_NOTHING)
        if line.impl == impl and line.seq_len >= from_n
        else line
        for line in lines
    ]


def _has_heads(impl: str) -> bool:
    return ":" in impl or IMPLS[impl].has_heads
