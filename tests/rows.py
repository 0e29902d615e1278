"""Rows and lines as a sweep would leave them, made of numbers that the test chooses."""

from collections.abc import Callable, Iterable
from typing import Any

from harness.core.config import Precision
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.core.run.outcome import TrialOutcome

PRECISION = Precision(target=0.05, min_rounds=3, max_rounds=3, trial_s=0.1, timeout_s=9, case_s=100, patience_s=1)
FAMILIES = {"rnn": "rnn", "attention": "attention"}


def row(case: Case, purpose: str, number: int = 0, **outcome: Any) -> dict[str, Any]:
    return {
        "key": case.key,
        "case": case.as_dict(),
        "family": FAMILIES.get(case.impl.split(".")[0], "own"),
        "purpose": purpose,
        "round": number,
        "status": "ok",
        "reason": None,
        "wall_s": 0.1,
        **outcome,
    }


def outcome_of(entries: dict[str, Any]) -> TrialOutcome:
    """A trial with these entries, which is ok and takes 0.1 s unless they say otherwise."""
    rest = {"status": "ok", "reason": None, "wall_s": 0.1, **entries}
    return TrialOutcome(rest.pop("status"), rest.pop("reason"), wall_s=rest.pop("wall_s"), values=rest)


def measured(case: Case, time_s: float, peak_bytes: int, trials: int = 3) -> list[dict[str, Any]]:
    facts = row(case, "facts", peak_bytes=peak_bytes, peak_resident_bytes=2 * peak_bytes)
    timed = [
        row(case, "time", i, samples_s=[time_s * (1 + 0.001 * i), time_s * 1.5], probe_s=1e-4) for i in range(trials)
    ]
    return [row(case, "verify"), facts, *timed]


def lines(cases: Iterable[Case], time: Callable[[Case], float], memory: Callable[[Case], int]) -> list[CaseResult]:
    return summarise([r for case in cases for r in measured(case, time(case), memory(case))], PRECISION)


SIZES = (64, 128, 256, 512, 1024, 2048)


def attention_time(case: Case) -> float:
    n, d = case.seq_len, case.d_model
    return (8.0 * n * d * d + 4.0 * n * n * d) / 1e11


def rnn_time(case: Case) -> float:
    return 4.0 * case.seq_len * case.d_model**2 / 2e10


def usual_lines(heads: tuple[int, ...] = (2, 8), widths: tuple[int, ...] = (128, 256)) -> list[CaseResult]:
    """Naive and fused attention and an RNN, as theory has them."""
    attention = [
        Case(impl, n, d, h)
        for impl in ("attention.naive", "attention.fused")
        for n in SIZES
        for d in widths
        for h in heads
    ]
    rnn = [Case("rnn.torch", n, d, 1) for n in SIZES for d in widths]

    def time(case: Case) -> float:
        if case.impl == "rnn.torch":
            return rnn_time(case)
        return attention_time(case) * (2.0 if case.impl == "attention.naive" else 1.0)

    def memory(case: Case) -> int:
        n, d = case.seq_len, case.d_model
        return 8 * n * n if case.impl == "attention.naive" else 16 * n * d

    return lines([*attention, *rnn], time, memory)
