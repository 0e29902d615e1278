"""Papers that the tests write, and lines of their settings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rows import lines

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.extras.papers.papers import Paper, paper_of

SIZES = (256, 512, 1024, 2048)


def paper(**parts: Any) -> Paper:
    """Read from a run's configuration."""
    read = paper_of({"paper": {"name": "test", **parts}})
    assert read is not None
    return read


def timed(
    impl: str, time_s: Callable[[int], float], sizes: tuple[int, ...] = SIZES, **changed: Any
) -> list[CaseResult]:
    """A line at each n, its time known to ± 1 %; 100 bytes each of weights and inputs."""
    case = Case(impl, 1, 128, 1 if impl.startswith("rnn") else 2)
    found = lines([replace(case, seq_len=n) for n in sizes], lambda one: 1.0, lambda one: 1000)
    return [
        replace(
            line,
            time_s=(time := time_s(line.seq_len)),
            time_lo_s=0.99 * time,
            time_hi_s=1.01 * time,
            weights_bytes=100,
            inputs_bytes=100,
            peak_bytes=line.seq_len**2 - 200,
            **changed,
        )
        for line in found
    ]
