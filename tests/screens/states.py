"""Runs in the states that change a screen, made of numbers that the tests choose."""

import math
from collections.abc import Sequence
from dataclasses import replace

from rows import usual_lines

from harness.core.results.columns import CaseResult


def usual() -> list[CaseResult]:
    """Two kinds of attention and an RNN, each time up to 2 % off its law: no rounding error decides what is worst."""
    return [_off(line, 1 + 0.02 * math.sin(line.seq_len + line.d_model + line.num_heads)) for line in usual_lines()]


def _off(line: CaseResult, factor: float) -> CaseResult:
    times = {name: getattr(line, name) * factor for name in ("time_s", "time_lo_s", "time_hi_s")}
    return replace(line, **times)


def failed(lines: Sequence[CaseResult], status: str = "oom", reason: str = "can't allocate") -> list[CaseResult]:
    """The lines, none of them with a cost."""
    return [replace(line, status=status, reason=reason, time_s=None, peak_bytes=None) for line in lines]


def renamed(lines: Sequence[CaseResult], **names: str) -> list[CaseResult]:
    """The lines with other names of layers: `rnn_torch="…"`."""
    return [replace(line, impl=names.get(line.impl.replace(".", "_"), line.impl)) for line in lines]
