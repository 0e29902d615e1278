"""Page faults of a layer's large intermediates, by allocator."""

import sys
from pathlib import Path

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="glibc's mallopt"),
    pytest.mark.skipif(THP.exists() and "[always]" in THP.read_text(), reason="huge pages: a fault is 512 pages"),
]


def faults_per_call(runner: Executor, allocator: str) -> float:
    """Of naive attention, whose scores take 4 MiB, 1,024 pages, at a time, twice over."""
    outcome = runner.run("time", Case("attention.naive", 1024, 16, 1, threads=1, allocator=allocator))
    assert outcome.status == "ok", outcome.reason
    return outcome.values["minor_faults"] / (len(outcome.values["samples_s"]) * outcome.values["calls_per_sample"])


def test_a_steady_allocator_never_pays_for_the_scores_again(runner: Executor) -> None:
    # Now and then the first sample finds a gap that the warm-up call has left, and grows the heap once more.
    assert min(faults_per_call(runner, "steady") for _ in range(4)) < 64


def test_a_fresh_allocator_pays_for_them_at_every_call(runner: Executor) -> None:
    assert faults_per_call(runner, "fresh") > 2 * 1024
