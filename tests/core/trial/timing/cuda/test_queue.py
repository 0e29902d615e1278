"""Holding the queue, on a simulated GPU."""

from collections.abc import Callable
from typing import Any

import pytest
from core.trial.timing.cuda.simulated_gpu import SimGpu

from harness.core.trial.timing.cuda_sampling import CLOCK_CYCLES, LARGEST_BATCH, Free, Held, Sampling
from harness.core.trial.timing.sampler import LEAST_CALL_S, MIN_SAMPLES

BUDGET_S = 0.1


def sampling(gpu: SimGpu, call: Callable[[], Any], patch: pytest.MonkeyPatch) -> Sampling:
    return Sampling(call, gpu.device(patch), gpu.time, clock_s=gpu.event_s)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Held]:
    def take(gpu: SimGpu, call: Callable[[], Any], budget_s: float = BUDGET_S, sample_s: float = 50e-6) -> Held:
        return sampling(gpu, call, monkeypatch).held(budget_s, sample_s)

    return take


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Free]:
    return lambda gpu, call: sampling(gpu, call, monkeypatch).free(BUDGET_S)


def test_a_held_sample_is_the_gpus_time_alone_however_slow_the_host(held: Callable[..., Held]) -> None:
    gpu = SimGpu()
    seen = held(gpu, gpu.layer(10, kernel_s=2e-6, launch_s=30e-6), sample_s=300e-6)
    assert seen.gpu_s == pytest.approx([20e-6] * len(seen.gpu_s))
    assert seen.host_s == pytest.approx([300e-6] * len(seen.host_s))
    assert seen.taken == len(seen.gpu_s)


@pytest.mark.parametrize("joined", [True, False])
def test_work_on_a_stream_of_the_layers_own_counts_if_the_present_stream_waits_for_it(
    held: Callable[..., Held], joined: bool
) -> None:
    gpu = SimGpu()
    present, own = gpu.stream, 7
    work = gpu.layer(1, kernel_s=100e-6)

    def call() -> None:
        if joined:
            gpu.join(own, present)
        gpu.stream = own
        work()
        gpu.stream = present
        if joined:
            gpu.join(present, own)

    seconds = held(gpu, call).gpu_s
    assert seconds == pytest.approx([work.hot_s if joined else LEAST_CALL_S] * len(seconds), abs=1e-9)


def test_one_wait_serves_many_samples(held: Callable[..., Held]) -> None:
    gpu = SimGpu()
    seen = held(gpu, gpu.layer(2, kernel_s=10e-6))
    assert len(seen.gpu_s) > 20 * gpu.waits
    assert len(seen.gpu_s) <= LARGEST_BATCH * gpu.waits


@pytest.mark.parametrize("kernel_s", [10e-6, 5e-3])
def test_sampling_goes_on_for_the_budget_and_not_for_a_large_batch_longer(
    held: Callable[..., Held], kernel_s: float
) -> None:
    gpu = SimGpu()
    held(gpu, gpu.layer(2, kernel_s))
    assert BUDGET_S <= gpu.now < 1.3 * BUDGET_S


def test_a_call_longer_than_the_budget_is_sampled_a_few_times(held: Callable[..., Held]) -> None:
    gpu = SimGpu()
    assert len(held(gpu, gpu.layer(1, kernel_s=1.0)).gpu_s) == MIN_SAMPLES


def test_batches_shrink_to_what_the_queue_has_room_for_and_the_rest_is_left_out(held: Callable[..., Held]) -> None:
    gpu = SimGpu(depth=1000)
    seen = held(gpu, gpu.layer(100, kernel_s=50e-6, launch_s=4e-6), budget_s=1.0, sample_s=400e-6)
    assert seen.gpu_s == pytest.approx([5e-3] * len(seen.gpu_s))
    assert seen.host_s == pytest.approx([400e-6] * len(seen.host_s)), "waiting for room is no cost of the host"
    assert MIN_SAMPLES < len(seen.gpu_s) < seen.taken
    assert 1 <= seen.most <= 10


def test_a_call_that_overfills_the_queue_yields_no_held_sample_and_soon_is_let_go(held: Callable[..., Held]) -> None:
    gpu = SimGpu(depth=1000)
    call_s = 3000 * 4e-6
    assert held(gpu, gpu.layer(3000, kernel_s=2e-6, launch_s=4e-6), sample_s=call_s).gpu_s == []
    assert gpu.now < 10 * call_s


def test_a_call_that_waits_for_the_gpu_yields_no_held_sample(held: Callable[..., Held]) -> None:
    gpu = SimGpu()
    launch = gpu.layer(1, kernel_s=10e-6)

    def call() -> None:
        launch()
        gpu.sync()

    assert held(gpu, call).gpu_s == []


def test_a_first_hold_that_was_too_short_is_made_longer(held: Callable[..., Held]) -> None:
    gpu = SimGpu(depth=10**5)
    seen = held(gpu, gpu.layer(100, kernel_s=1e-6, launch_s=4e-6), sample_s=100e-6)  # it takes 400
    of_clock = [cycles / gpu.clock.boost_hz for cycles in (1, CLOCK_CYCLES)]
    holds = [seconds for seconds in gpu.holds if seconds not in of_clock]
    assert holds[1] == pytest.approx(2 * holds[0])
    assert len(seen.gpu_s) == seen.taken - 1


def test_a_busy_host_that_misses_a_hold_now_and_then_does_not_make_the_call_one_that_cannot_be_held(
    held: Callable[..., Held],
) -> None:
    gpu = SimGpu()
    quick, calls = gpu.layer(2, kernel_s=10e-6), 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls % 10 == 0:
            gpu.now += 5e-3
        quick()

    seen = held(gpu, call, budget_s=0.3)
    assert MIN_SAMPLES < len(seen.gpu_s) < seen.taken
    assert seen.gpu_s == pytest.approx([20e-6] * len(seen.gpu_s)), "launch gaps stay out"


def test_a_call_that_was_held_before_is_not_given_up_when_the_host_is_slow_for_a_while(
    held: Callable[..., Held],
) -> None:
    gpu = SimGpu()
    quick, slowed = gpu.layer(2, kernel_s=10e-6), set()

    def call() -> None:
        batch = gpu.waits
        if batch in (0, 3, 4, 5) and batch not in slowed:
            slowed.add(batch)
            gpu.now += 5e-3
        quick()

    seen = held(gpu, call)
    assert slowed == {0, 3, 4, 5}
    assert gpu.now >= BUDGET_S
    assert len(seen.gpu_s) > 100


def test_a_held_sample_finds_the_cache_cold_and_its_lines_dirty_unless_they_shall_be_clean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu()
    call = gpu.layer(2, kernel_s=10e-6, reads_bytes=gpu.l2.size // 4)
    samples = sampling(gpu, call, monkeypatch)
    dirty, clean = samples.held(BUDGET_S, 50e-6), samples.held(BUDGET_S, 50e-6, clean=True)
    assert dirty.gpu_s == pytest.approx([call.cold_s] * len(dirty.gpu_s))
    assert clean.gpu_s == pytest.approx([call.clean_s] * len(clean.gpu_s))


@pytest.mark.parametrize("most", [1, 100])
def test_a_hot_sample_finds_what_the_call_before_has_left_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    gpu = SimGpu()
    call = gpu.layer(2, kernel_s=10e-6, reads_bytes=gpu.l2.size // 4)
    assert sampling(gpu, call, monkeypatch).hot(0.01, 50e-6, 20e-6, most) == pytest.approx(call.hot_s)


def test_a_call_that_fits_into_the_queue_once_has_a_hot_sample_too(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(depth=1000)
    call = gpu.layer(900, 2e-6)
    assert sampling(gpu, call, monkeypatch).hot(0.01, 1.8e-3, 1.8e-3, 1) == pytest.approx(call.hot_s)


def test_a_long_call_takes_no_more_than_two_calls_for_its_hot_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    assert sampling(gpu, gpu.layer(1, 2.0), monkeypatch).hot(0.01, 2e-6, 2.0, 64) == pytest.approx(2.0)
    assert gpu.now < 4.1


def test_a_call_that_can_no_longer_be_held_has_no_hot_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(depth=1000)
    assert sampling(gpu, gpu.layer(3000, 2e-6), monkeypatch).hot(0.01, 6e-3, 6e-3, 1) is None


def test_a_free_sample_has_the_launches_in_it_and_a_cold_cache(free: Callable[..., Free]) -> None:
    gpu = SimGpu()
    found = free(gpu, gpu.layer(10, kernel_s=2e-6, launch_s=30e-6, reads_bytes=gpu.l2.size // 8))
    assert found.gpu_s == pytest.approx([300e-6] * len(found.gpu_s), rel=0.02)
    assert found.host_s == pytest.approx([300e-6] * len(found.host_s))


def test_what_is_left_to_wait_for_after_a_free_call_tells_a_slow_gpu_from_a_slow_host(
    free: Callable[..., Free],
) -> None:
    slow_host, slow_gpu = SimGpu(), SimGpu()
    by_host, by_gpu = free(slow_host, slow_host.layer(3000, 1e-6)), free(slow_gpu, slow_gpu.layer(3000, 50e-6))
    assert by_host.host_bound
    assert not by_gpu.host_bound
    assert min(by_gpu.tail_s) > 0.3 * max(by_gpu.gpu_s)


def test_samples_at_a_lowered_clock_rate_are_dropped_where_most_are_not() -> None:
    held = Held([1.0] * 9 + [1.4], [0.1] * 10, [2e9, 1.95e9, 2e9] * 3 + [1.4e9], 10, 4)
    assert held.unthrottled().gpu_s == [1.0] * 9


def test_a_clock_rate_that_is_low_nearly_all_the_time_is_the_usual_one() -> None:
    held = Held([1.0] + [1.4] * 9, [0.1] * 10, [2e9] + [1.4e9] * 9, 10, 4)
    assert len(held.unthrottled().gpu_s) == 10
