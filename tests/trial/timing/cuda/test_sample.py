"""A whole trial's samples, on a GPU whose time the test turns."""

import gc
from statistics import median

import pytest
from trial.timing.cuda.fake_gpu import FakeGpu

from harness.trial.timing.cuda import LEAST_WARMUP_S, sample_cuda

BUDGET_S = 0.1


def test_a_call_that_keeps_the_gpu_busy_is_timed_held_and_not_called_host_bound() -> None:
    gpu = FakeGpu()
    samples, extras = sample_cuda(gpu.layer(10, kernel_s=100e-6, launch_s=4e-6), BUDGET_S, gpu, gpu.clock)
    assert samples.samples_s == pytest.approx([1e-3] * len(samples.samples_s))
    assert samples.calls_per_sample == 1
    assert extras["queue_held"] == 1.0
    assert extras["host_s"] == pytest.approx(40e-6)
    assert extras["host_bound"] is False
    assert extras["wall_call_s"] == pytest.approx(1e-3, rel=0.01)


def test_a_call_that_keeps_the_gpu_waiting_is_called_host_bound_and_both_of_its_times_are_given() -> None:
    gpu = FakeGpu()
    samples, extras = sample_cuda(gpu.layer(10, kernel_s=2e-6, launch_s=30e-6), BUDGET_S, gpu, gpu.clock)
    assert samples.samples_s == pytest.approx([20e-6] * len(samples.samples_s))
    assert extras["host_bound"] is True
    assert extras["host_s"] == pytest.approx(300e-6)
    assert extras["wall_call_s"] == pytest.approx(300e-6, rel=0.01)


def test_a_call_of_thousands_of_launches_says_that_it_was_not_held_and_that_its_time_is_the_hosts() -> None:
    gpu = FakeGpu()
    samples, extras = sample_cuda(gpu.layer(3000, kernel_s=2e-6, launch_s=4e-6), BUDGET_S, gpu, gpu.clock)
    assert extras["queue_held"] == 0.0
    assert extras["host_bound"] is True
    assert extras["host_s"] == pytest.approx(12e-3, rel=0.01)
    assert samples.samples_s == pytest.approx([12e-3] * len(samples.samples_s), rel=0.01)


def test_of_thousands_of_long_kernels_the_hosts_cost_is_unknown_since_it_waited_for_room_in_the_queue() -> None:
    gpu = FakeGpu()
    samples, extras = sample_cuda(gpu.layer(3000, kernel_s=50e-6, launch_s=4e-6), BUDGET_S, gpu, gpu.clock)
    assert extras["queue_held"] == 0.0
    assert extras["host_bound"] is False
    assert extras["host_s"] is None
    assert samples.samples_s == pytest.approx([0.15] * len(samples.samples_s), rel=0.01)


def test_a_call_that_waits_for_the_gpu_itself_cannot_be_held_and_is_bound_by_the_host() -> None:
    gpu = FakeGpu()
    launch = gpu.layer(1, kernel_s=20e-6)

    def call() -> None:
        launch()
        gpu.sync()

    _, extras = sample_cuda(call, BUDGET_S, gpu, gpu.clock)
    assert extras["queue_held"] == 0.0
    assert extras["host_bound"] is True


def test_samples_are_cold_and_calls_back_to_back_are_warm() -> None:
    gpu = FakeGpu()
    samples, extras = sample_cuda(gpu.layer(1, kernel_s=100e-6, cold_s=30e-6), BUDGET_S, gpu, gpu.clock)
    assert samples.samples_s == pytest.approx([130e-6] * len(samples.samples_s))
    assert extras["wall_call_s"] == pytest.approx(100e-6, rel=0.01)
    assert extras["l2_bytes"] == gpu.l2_bytes


def test_the_first_call_and_the_warm_up_are_outside_the_samples() -> None:
    gpu = FakeGpu()
    call, calls = gpu.layer(1, kernel_s=1e-3), 0

    def compiled() -> None:
        nonlocal calls
        calls += 1
        gpu.now += 2.0 if calls == 1 else 0.3 if calls == 2 else 0.0
        call()

    samples, _ = sample_cuda(compiled, BUDGET_S, gpu, gpu.clock)
    assert samples.first_call_s == pytest.approx(2.0, rel=0.01)
    assert samples.warmup_calls >= 2
    assert samples.warmup_s >= 2.3
    assert max(samples.samples_s) == pytest.approx(1e-3)


def test_a_gpu_at_rest_is_given_time_to_clock_up() -> None:
    gpu = FakeGpu()
    samples, _ = sample_cuda(gpu.layer(1, kernel_s=10e-6), 0.001, gpu, gpu.clock)
    assert samples.warmup_s >= LEAST_WARMUP_S


def test_the_clocks_own_cost_is_what_two_events_read_with_nothing_in_between() -> None:
    gpu = FakeGpu(event_s=1.5e-6)
    assert sample_cuda(gpu.layer(1, 1e-4), BUDGET_S, gpu, gpu.clock)[0].clock_s == pytest.approx(1.5e-6)


def test_the_gauge_is_read_before_during_and_after_but_seldom_and_its_facts_are_among_the_extras() -> None:
    gpu = FakeGpu()
    _, extras = sample_cuda(gpu.layer(2, kernel_s=10e-6), BUDGET_S, gpu, gpu.clock)
    assert 3 <= len(gpu.gauge.busy) <= 7
    assert any(gpu.gauge.busy)
    assert extras["sm_clock_mhz"] == 1000


def test_what_the_call_raises_gets_out_and_the_garbage_collector_is_left_on() -> None:
    gpu = FakeGpu()

    def call() -> None:
        raise MemoryError("CUDA out of memory")

    with pytest.raises(MemoryError):
        sample_cuda(call, BUDGET_S, gpu, gpu.clock)
    assert gc.isenabled()


@pytest.mark.parametrize("kernels", [2, 3000])
def test_the_change_of_the_input_comes_before_each_sample_and_is_in_none(kernels: int) -> None:
    gpu, order = FakeGpu(), []
    layer = gpu.layer(kernels, kernel_s=10e-6)

    def renew() -> None:
        order.append("renew")
        gpu.enqueue(3e-3)

    def call() -> None:
        order.append("call")
        layer()

    plain, _ = sample_cuda(layer, BUDGET_S, gpu, gpu.clock)
    renewed, _ = sample_cuda(call, BUDGET_S, gpu, gpu.clock, renew)
    assert median(renewed.samples_s) == pytest.approx(median(plain.samples_s), rel=0.01)
    first, last = order.index("renew"), len(order) - order[::-1].index("renew")
    assert order[first : last + 1] == ["renew", "call"] * ((last + 1 - first) // 2)
