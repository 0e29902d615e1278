"""Peaks, against counts done by hand."""

import json
import sys
from collections import Counter

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.call_memory import allocator_peak, mapped_bytes, peak_of_changes, resident_peak
from harness.core.trial.peak_rates import page_fault_s
from harness.core.trial.workload import build

MIB = 2**20


def test_the_peak_is_the_highest_running_sum() -> None:
    assert peak_of_changes([100, 50, -100, 20]) == 150
    assert peak_of_changes([]) == 0
    assert peak_of_changes([-64, 32]) == 0


def test_what_is_freed_again_within_the_call_counts_to_the_byte() -> None:
    def call() -> torch.Tensor:
        big = torch.empty(1000, dtype=torch.float64)
        del big
        return torch.empty(10, dtype=torch.float32)

    peak, *_ = allocator_peak(call, "cpu")
    assert peak == 8000


@pytest.mark.parametrize("n", [64, 256])
def test_a_fused_layer_never_holds_the_scores_and_a_packed_one_holds_them_twice(n: int) -> None:
    h, d = 4, 32
    torch.set_grad_enabled(False)
    try:
        fused, *_ = allocator_peak(build(Case("attention.fused", n, d, h), 0).call, "cpu")
        packed, *_ = allocator_peak(build(Case("attention.packed", n, d, h), 0).call, "cpu")
    finally:
        torch.set_grad_enabled(True)
    projections = 3 * n * d * 4
    assert packed == pytest.approx(2 * h * n * n * 4 + projections, rel=0.1)
    assert fused < projections + 64 * n * h * 4 + 2**17


def test_gradients_of_the_call_before_do_not_hide_those_of_this_one(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted:NoHeads", 16, 1024, 1, mode="train")).values
    weights = 4 * 1024 * 1024
    assert facts["peak_bytes"] > weights
    assert facts["peak_resident_bytes"] > weights


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_touched_memory_is_resident_and_merely_reserved_memory_is_not() -> None:
    def touched() -> torch.Tensor:
        return torch.ones(2**24)  # 64 MiB

    def reserved() -> torch.Tensor:
        return torch.empty(2**24)

    touched()
    assert resident_peak(touched) == pytest.approx(2**26, rel=0.05)
    assert resident_peak(reserved) < 2**22


@pytest.mark.parametrize(("allocator", "expected"), [("default", 96 * MIB), ("fresh", 97 * MIB), ("steady", 0)])
def test_every_call_maps_the_blocks_that_the_c_library_does_not_keep(allocator: str, expected: int) -> None:
    blocks = Counter({32 * MIB: 1, 64 * MIB: 1, MIB: 1, 1024: 1000})
    assert mapped_bytes(blocks, allocator) == expected


def test_packed_attention_maps_three_blocks_of_scores_from_32_mib_on(runner: Executor) -> None:
    small, large = (runner.run("facts", Case("attention.packed", n, 64, 8)).values for n in (512, 1024))
    scores = 4 * 8 * 1024**2
    assert (small["mapped_bytes"], large["mapped_bytes"]) == (0, 3 * scores)
    assert json.loads(large["block_sizes"])[0] == [scores, 3]


def test_a_page_of_new_memory_costs_some_microseconds() -> None:
    assert 1e-8 < page_fault_s() < 1e-3
