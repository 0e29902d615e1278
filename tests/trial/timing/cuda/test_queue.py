"""Holding the queue, on a GPU whose time the test turns."""

import pytest
from trial.timing.cuda.fake_gpu import FakeGpu

from harness.trial.timing.cuda import LARGEST_BATCH, Held, Sampling
from harness.trial.timing.sampler import MIN_SAMPLES

BUDGET_S = 0.1


def nothing() -> None:
    pass


def held(gpu: FakeGpu, call: object, budget_s: float = BUDGET_S, host_s: float = 50e-6) -> Held:
    return Sampling(call, gpu, gpu.clock).held(budget_s, host_s, nothing)  # type: ignore[arg-type]


def test_a_held_sample_is_the_gpus_time_alone_however_slow_the_host() -> None:
    gpu = FakeGpu()
    seen = held(gpu, gpu.layer(10, kernel_s=2e-6, launch_s=30e-6), host_s=300e-6)
    assert seen.gpu_s == pytest.approx([20e-6 + gpu.event_s] * len(seen.gpu_s))
    assert seen.host_s == pytest.approx([300e-6] * len(seen.host_s))
    assert seen.taken == len(seen.gpu_s)


def test_one_wait_serves_many_samples() -> None:
    gpu = FakeGpu()
    seen = held(gpu, gpu.layer(2, kernel_s=10e-6))
    assert len(seen.gpu_s) > 20 * gpu.waits
    assert len(seen.gpu_s) <= LARGEST_BATCH * gpu.waits


@pytest.mark.parametrize("kernel_s", [10e-6, 5e-3])
def test_sampling_goes_on_for_the_budget_and_not_for_a_large_batch_longer(kernel_s: float) -> None:
    gpu = FakeGpu()
    held(gpu, gpu.layer(2, kernel_s))
    assert BUDGET_S <= gpu.now < 1.3 * BUDGET_S


def test_a_call_longer_than_the_budget_is_sampled_a_few_times() -> None:
    gpu = FakeGpu()
    assert len(held(gpu, gpu.layer(1, kernel_s=1.0)).gpu_s) == MIN_SAMPLES


def test_batches_shrink_to_what_the_queue_has_room_for_and_the_rest_is_left_out() -> None:
    gpu = FakeGpu(depth=1000)
    seen = held(gpu, gpu.layer(100, kernel_s=50e-6), budget_s=1.0)
    assert seen.gpu_s == pytest.approx([5e-3 + gpu.event_s] * len(seen.gpu_s))
    assert seen.host_s == pytest.approx([400e-6] * len(seen.host_s)), "waiting for room is no cost of the host"
    assert MIN_SAMPLES < len(seen.gpu_s) < seen.taken


def test_a_call_that_overfills_the_queue_yields_no_held_sample_and_soon_is_let_go() -> None:
    gpu = FakeGpu(depth=1000)
    call_s = 3000 * 4e-6
    assert held(gpu, gpu.layer(3000, kernel_s=2e-6), host_s=call_s).gpu_s == []
    assert gpu.now < 10 * call_s


def test_a_call_that_waits_for_the_gpu_yields_no_held_sample() -> None:
    gpu = FakeGpu()
    launch = gpu.layer(1, kernel_s=10e-6)

    def call() -> None:
        launch()
        gpu.sync()

    assert held(gpu, call).gpu_s == []


def test_a_first_hold_that_was_too_short_is_made_longer() -> None:
    gpu = FakeGpu(depth=10**5)
    seen = held(gpu, gpu.layer(100, kernel_s=1e-6), host_s=100e-6)  # it takes 400
    assert gpu.holds[1] == pytest.approx(2 * gpu.holds[0])
    assert len(seen.gpu_s) == seen.taken - 1


def test_a_busy_host_that_misses_a_hold_now_and_then_does_not_make_the_call_one_that_cannot_be_held() -> None:
    gpu = FakeGpu()
    quick, calls = gpu.layer(2, kernel_s=10e-6), 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls % 10 == 0:
            gpu.now += 5e-3
        quick()

    seen = held(gpu, call, budget_s=0.3)
    assert MIN_SAMPLES < len(seen.gpu_s) < seen.taken
    assert seen.gpu_s == pytest.approx([20e-6 + gpu.event_s] * len(seen.gpu_s)), "launch gaps stay out"


def test_a_call_that_was_held_before_is_not_given_up_when_the_host_is_slow_for_a_while() -> None:
    gpu = FakeGpu()
    quick, slowed = gpu.layer(2, kernel_s=10e-6), set()

    def call() -> None:
        if len(gpu.holds) in (1, 4, 5, 6) and len(gpu.holds) not in slowed:
            slowed.add(len(gpu.holds))
            gpu.now += 5e-3
        quick()

    seen = held(gpu, call)
    assert slowed == {1, 4, 5, 6}
    assert gpu.now >= BUDGET_S
    assert len(seen.gpu_s) > 100


def test_the_gpu_is_at_work_while_something_else_is_done() -> None:
    gpu = FakeGpu()
    Sampling(gpu.layer(2, kernel_s=10e-6), gpu, gpu.clock).held(BUDGET_S, 50e-6, gpu.gauge.read)
    assert gpu.gauge.busy
    assert all(gpu.gauge.busy)


def test_a_held_sample_finds_the_cache_cold() -> None:
    gpu = FakeGpu()
    seen = held(gpu, gpu.layer(2, kernel_s=10e-6, cold_s=7e-6))
    assert seen.gpu_s == pytest.approx([27e-6 + gpu.event_s] * len(seen.gpu_s))


def test_a_free_sample_has_the_launches_in_it_and_a_cold_cache() -> None:
    gpu = FakeGpu()
    free = Sampling(gpu.layer(10, kernel_s=2e-6, launch_s=30e-6, cold_s=7e-6), gpu, gpu.clock).free(BUDGET_S, nothing)
    assert free.gpu_s == pytest.approx([300e-6] * len(free.gpu_s), rel=0.02)
    assert free.host_s == pytest.approx([300e-6] * len(free.host_s))


def test_what_is_left_to_wait_for_after_a_free_call_tells_a_slow_gpu_from_a_slow_host() -> None:
    slow_host, slow_gpu = FakeGpu(), FakeGpu()
    by_host = Sampling(slow_host.layer(3000, 2e-6), slow_host, slow_host.clock).free(BUDGET_S, nothing)
    by_gpu = Sampling(slow_gpu.layer(3000, 50e-6), slow_gpu, slow_gpu.clock).free(BUDGET_S, nothing)
    assert max(by_host.tail_s) < 0.01 * min(by_host.gpu_s)
    assert min(by_gpu.tail_s) > 0.3 * max(by_gpu.gpu_s)
