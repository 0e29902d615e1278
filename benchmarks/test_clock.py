"""When a clock counts as different from do_bench, and how the two are measured beside each other."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import bench_do_bench
from benchmarks.bench_do_bench import Turns, busy
from harness.core.model.sweep_axes import Case

MHZ = 1e6


def turns(ratio: float, ours_s: float = 1e-3, by: str = "held", host_bound: bool = False, **rates: Any) -> Turns:
    return Turns("case", [ours_s], [ours_s / ratio], [1e-6], by=by, host_bound=[host_bound], **rates)


@pytest.mark.parametrize(
    ("measured", "far_off"),
    [
        (turns(1.005), False),
        (turns(0.333), True),
        (turns(1.02), True),
        (turns(1.02, ours_s=20e-6), False),
        (turns(1.02, by="graph"), False),
        (turns(1.02, host_bound=True), False),
    ],
)
def test_a_held_call_that_is_long_and_not_host_bound_must_take_as_long_as_by_do_bench(
    measured: Turns, far_off: bool
) -> None:
    assert measured.is_far_off() == far_off


def test_a_call_that_takes_as_many_cycles_at_another_clock_rate_is_not_far_off() -> None:
    slower_clock = turns(1.03, ours_hz=[1000 * MHZ], do_bench_hz=[1030 * MHZ])
    assert slower_clock.ratio_of_cycles == pytest.approx(1.0)
    assert not slower_clock.is_far_off()


def test_a_clock_that_is_off_in_time_and_in_cycles_is_far_off() -> None:
    assert turns(1.03, ours_hz=[1000 * MHZ], do_bench_hz=[1000 * MHZ]).is_far_off()
    assert turns(1.03, ours_hz=[1030 * MHZ], do_bench_hz=[1000 * MHZ]).is_far_off()


def test_without_a_clock_rate_there_is_no_ratio_of_cycles() -> None:
    assert turns(1.0, ours_hz=[0.0], do_bench_hz=[1000 * MHZ]).ratio_of_cycles is None


def test_a_call_that_waits_for_the_host_has_no_ratio_of_cycles() -> None:
    # The GPU also waits for what measures the clock rate, which is then too low.
    assert turns(1.0, host_bound=True, ours_hz=[1980 * MHZ], do_bench_hz=[1760 * MHZ]).ratio_of_cycles is None


def test_the_two_sides_change_places_from_turn_to_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    samples = SimpleNamespace(samples_s=[1e-3], clock_s=1e-6)
    extras = {"host_bound": False, "sm_clock_mhz": 1900.0, "gpu_time_by": "held"}

    def sample_cuda(*arguments: Any) -> Any:
        order.append("ours")
        return samples, extras

    def do_bench(*arguments: Any, **options: Any) -> float:
        order.append("theirs")
        for tensor in options["grad_to_none"]:
            tensor.grad = None
        return 1.0

    gpu = SimpleNamespace(sample_cuda=sample_cuda)
    sampling = SimpleNamespace(_enqueue_clock=lambda: lambda: 1900 * MHZ)
    monkeypatch.setattr(bench_do_bench, "cuda", gpu)
    monkeypatch.setattr(bench_do_bench, "TorchDevice", lambda: None)
    monkeypatch.setattr(bench_do_bench, "Sampling", lambda *arguments, **options: sampling)
    monkeypatch.setattr(bench_do_bench, "TURNS", 4)
    monkeypatch.setattr(torch.profiler, "supported_activities", lambda: set())
    measured = bench_do_bench._measure(Case("attention.fused", 16, 16, 2), do_bench)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs", "theirs", "ours"]
    assert measured.ours_hz == measured.do_bench_hz == [1900 * MHZ] * 4


def test_the_profiler_counts_kernels_where_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    share, kernels_s = busy(lambda: torch.ones(8) + 1, torch.profiler.ProfilerActivity.CPU)
    assert share == kernels_s == 0.0  # no kernel of a GPU has run
