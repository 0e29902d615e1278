"""A whole trial's samples, on a simulated GPU. `test_planted_faults.py` shows what each of these tests would notice."""

import gc
import math
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pytest
from core.trial.timing.cuda.gpus import GPUS, USUAL
from core.trial.timing.cuda.simulated_gpu import Kernel, SimClock, SimGpu
from rows import PRECISION, row

from harness.core.model.sweep_axes import Case
from harness.core.results.summarise import summarise
from harness.core.stats.estimate import is_quiet, median_between_ticks
from harness.core.trial.timing.cuda import sample_cuda
from harness.core.trial.timing.cuda_sampling import LEAST_WARMUP_S, Sampling
from harness.core.trial.timing.sampler import Samples

BUDGET_S = 0.1


def sampled(
    gpu: SimGpu, call: Callable[[], Any], patch: pytest.MonkeyPatch, budget_s: float = BUDGET_S, **more: Any
) -> tuple[Samples, dict[str, Any]]:
    return sample_cuda(call, budget_s, gpu.device(patch), gpu.time, **more)


class Booked(float):
    """A measured time in seconds, and the one in the simulation's books."""

    true_s: float


def sampled_beside_the_truth(
    gpu: SimGpu, call: Callable[[], Any], patch: pytest.MonkeyPatch, budget_s: float = BUDGET_S
) -> tuple[Samples, dict[str, Any], float]:
    """As `sampled`, for a call of one kernel, and the median of the booked times of the kept samples."""
    booked: list[float] = []
    original = Sampling._batch

    def booking() -> None:
        call()
        booked.append(gpu.entries[-1].end_s - gpu.entries[-1].begin_s)

    def batch(self: Sampling, *given: Any) -> Any:
        booked.clear()
        gpu_s, *others = original(self, *given)
        measured = list(map(Booked, gpu_s))
        for one, true_s in zip(measured, booked, strict=False):  # none are booked of an empty kernel or a graph
            one.true_s = true_s
        return measured, *others

    with patch.context() as inside:
        inside.setattr(Sampling, "_batch", batch)
        samples, extras = sampled(gpu, booking, patch, budget_s)
    return samples, extras, median(one.true_s for one in samples.samples_s if isinstance(one, Booked))


def test_a_call_that_keeps_the_gpu_busy_is_timed_held_and_not_called_host_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu()
    samples, extras = sampled(gpu, gpu.layer(10, kernel_s=100e-6, launch_s=4e-6), monkeypatch)
    assert samples.samples_s == pytest.approx([1e-3] * len(samples.samples_s))
    assert samples.calls_per_sample == 1
    assert (extras["gpu_time_by"], extras["queue_held"], extras["graph_s"]) == ("held", 1.0, None)
    assert extras["host_s"] == pytest.approx(40e-6)
    assert extras["host_bound"] is False
    assert extras["wall_call_s"] == pytest.approx(1e-3, rel=0.01)


def test_a_call_that_keeps_the_gpu_waiting_is_called_host_bound_and_both_of_its_times_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu()
    samples, extras = sampled(gpu, gpu.layer(10, kernel_s=2e-6, launch_s=30e-6), monkeypatch)
    assert samples.samples_s == pytest.approx([20e-6] * len(samples.samples_s))
    assert extras["graph_s"] == pytest.approx(20e-6)
    assert extras["host_bound"] is True
    assert extras["host_s"] == pytest.approx(300e-6)
    assert extras["wall_call_s"] == pytest.approx(300e-6, rel=0.01)


def test_a_call_whose_launches_take_longer_than_its_hot_work_is_host_bound_though_its_cold_work_takes_longer_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu(l2_bytes=2**27)
    call = gpu.layer(1, kernel_s=10e-6, launch_s=20e-6, reads_bytes=2**25)
    _, extras = sampled(gpu, call, monkeypatch)
    assert call.hot_s < extras["host_s"] < call.cold_s
    assert extras["host_bound"] is True


def test_a_hot_time_is_that_of_the_usual_call_if_another_process_had_the_gpu_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu()
    usual, slow = gpu.layer(1, kernel_s=100e-6), gpu.layer(1, kernel_s=5e-3)
    sampling = Sampling(lambda: slow() if gpu.waits == 4 else usual(), gpu.device(monkeypatch), gpu.time)
    sampling.clock_s = gpu.event_s
    assert sampling.hot(0.02, 50e-6, 100e-6, 100) == pytest.approx(usual.hot_s)


@pytest.mark.parametrize("way", ["hot", "free", "back_to_back"])
def test_one_disturbed_sample_does_not_decide_whether_a_call_is_host_bound(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    gpu = SimGpu()
    device, original = gpu.device(monkeypatch), getattr(Sampling, way)
    layers = {"hot": (10, 2e-6, 30e-6), "free": (3000, 2e-6, 30e-6), "back_to_back": (10, 100e-6, 4e-6)}
    usual, neighbour = gpu.layer(*layers[way]), gpu.layer(1, 0.1)
    left: list[int] = []

    def call() -> None:
        usual()
        if left:
            left[0] -= 1
            if left[0] == 0:
                neighbour()

    def sampled_with_a_neighbour(self: Sampling, *given: Any) -> Any:
        left[:] = [2]  # the first hot call is before the events
        return original(self, *given)

    monkeypatch.setattr(Sampling, way, sampled_with_a_neighbour)
    device.lacks["capture"] = "graphs would replace the free samples"
    _, extras = sample_cuda(call, BUDGET_S, device, gpu.time)
    assert left[0] < 0, "a sample was disturbed"
    assert extras["gpu_time_by"] == (None if way == "free" else "held")
    assert extras["host_bound"] is (way != "back_to_back")


@pytest.mark.parametrize("kernel_s", [2e-6, 50e-6])
def test_a_call_of_thousands_of_launches_is_timed_as_a_graph(monkeypatch: pytest.MonkeyPatch, kernel_s: float) -> None:
    gpu = SimGpu()
    call = gpu.layer(3000, kernel_s, launch_s=4e-6, reads_bytes=gpu.l2.size // 8)
    samples, extras = sampled(gpu, call, monkeypatch)
    assert (extras["gpu_time_by"], extras["queue_held"]) == ("graph", 0.0)
    assert samples.samples_s == pytest.approx([call.cold_s] * len(samples.samples_s), rel=1e-5)
    assert extras["hot_gpu_s"] == pytest.approx(call.hot_s)
    assert extras["graph_s"] == pytest.approx(median(samples.samples_s), rel=1e-5)
    slow_host = kernel_s < 4e-6
    assert extras["host_bound"] is slow_host
    assert extras["host_s"] == (pytest.approx(12e-3, rel=0.01) if slow_host else None), "it waited for room"
    assert extras["wall_call_s"] == pytest.approx(3000 * max(4e-6, kernel_s), rel=0.01)


@pytest.mark.parametrize("n", [320, 512])
def test_a_loop_whose_launches_are_faster_than_its_kernels_is_not_host_bound_on_either_side_of_the_queues_depth(
    monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    gpu = SimGpu(**{**USUAL, "jitter": 0.0, "stall_s": 0.0})
    gpu.gauge.is_open = False
    _, extras = sampled(gpu, gpu.layer(3 * n, 2.3e-6), monkeypatch, 0.02)
    assert (extras["gpu_time_by"], extras["host_bound"]) == ("held" if n == 320 else "graph", False)


def test_a_call_that_waits_for_the_gpu_has_no_time_of_the_gpu_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    launch = gpu.layer(1, kernel_s=20e-6)

    def call() -> None:
        launch()
        gpu.sync()

    samples, extras = sampled(gpu, call, monkeypatch)
    assert extras["gpu_time_by"] is extras["graph_s"] is extras["hot_gpu_s"] is None
    assert "capturing" in extras["graph_note"]
    assert samples.samples_s
    assert extras["host_bound"] is True
    assert gpu.stream == 0, "the capture's stream was left"


def test_samples_are_cold_clean_ones_cost_no_writing_back_and_calls_back_to_back_are_warm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu(l2_bytes=2**27)
    call = gpu.layer(1, kernel_s=100e-6, reads_bytes=2**25)
    samples, extras = sampled(gpu, call, monkeypatch)
    assert samples.samples_s == pytest.approx([call.cold_s] * len(samples.samples_s))
    assert extras["clean_gpu_s"] == pytest.approx(call.clean_s, rel=1e-5)
    assert extras["hot_gpu_s"] == pytest.approx(call.hot_s)
    assert extras["wall_call_s"] == pytest.approx(call.hot_s, rel=0.01)
    assert extras["l2_bytes"] == 2 * gpu.l2.size


def test_the_first_call_and_the_warm_up_are_outside_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    call, calls = gpu.layer(1, kernel_s=1e-3), 0

    def compiled() -> None:
        nonlocal calls
        calls += 1
        gpu.now += 2.0 if calls == 1 else 0.3 if calls == 2 else 0.0
        call()

    samples, _ = sampled(gpu, compiled, monkeypatch)
    assert samples.warmup_s >= 2.3
    assert max(samples.samples_s) == pytest.approx(1e-3)


def test_a_gpu_at_rest_is_given_time_to_clock_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    samples, _ = sampled(gpu, gpu.layer(1, kernel_s=10e-6), monkeypatch, 0.001)
    assert samples.warmup_s >= LEAST_WARMUP_S


def test_the_clock_rate_of_an_idle_gpu_is_without_the_launch_of_what_measures_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On an H200, events and kernels take the host 13 and 5 µs. The rate was told 12 % too low.
    gpu = SimGpu(event_s=0.0, event_launch_s=13e-6, launch_s=20e-6, clock=SimClock(boost_hz=1.98e9, sustained_hz=None))
    sampling = Sampling(lambda: None, gpu.device(monkeypatch), gpu.time)
    assert sampling.clock_hz() == pytest.approx(1.98e9, rel=1e-3)


def test_the_clocks_own_cost_is_what_two_events_read_with_nothing_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(event_s=1.5e-6, event_make_s=60e-6, lazy_s=1e-3)
    assert sampled(gpu, gpu.layer(1, 1e-4), monkeypatch)[0].clock_s == pytest.approx(1.5e-6)


def test_the_cost_of_the_clock_and_its_rate_hold_no_wait_for_a_slow_host_and_nothing_of_a_gpu_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On an H100, many of the empty pairs were enqueued after the hold, and the rate was told up to 16 % too high.
    clock = SimClock(boost_hz=1.98e9, rest_hz=0.345e9, tau_s=5e-3)
    gpu = SimGpu(event_s=1.5e-6, event_launch_s=40e-6, launch_s=25e-6, spin_cycles=4_000, clock=clock)
    samples, extras = sampled(gpu, gpu.layer(1, 5e-3), monkeypatch)
    assert samples.clock_s == pytest.approx(1.5e-6)
    assert extras["sm_clock_mhz"] == pytest.approx(1980, rel=5e-3)


def test_the_gauge_is_read_a_few_times_and_only_while_calls_run(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    sampled(gpu, gpu.layer(2, kernel_s=1e-3), monkeypatch)
    assert 3 <= len(gpu.gauge.seen) <= 7
    assert set(gpu.gauge.seen) == {"kernel"}


def test_the_energy_of_a_call_is_that_of_calls_alone_whatever_the_gpu_did_in_the_second_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu()
    gpu.now = 5.0  # at rest, at a sixth of the power
    _, extras = sampled(gpu, gpu.layer(2, kernel_s=1e-3), monkeypatch)
    assert extras["energy_j"] == pytest.approx(600 * 2e-3, rel=0.05)
    assert extras["power_w"] == pytest.approx(600, rel=0.05)


def read_slowly(gpu: SimGpu, query_s: float) -> SimGpu:
    """The GPU, with an NVML that takes the host so long for a query of energy."""
    gpu.gauge.energy_query_s = query_s
    return gpu


@pytest.mark.parametrize("query_s", [0.1e-3, 0.5e-3, 1e-3, 3.6e-3, 13e-3])
@pytest.mark.parametrize(("kernels", "kernel_s"), [(1, 20e-6), (10, 2e-6), (10, 200e-6), (10, 2e-3), (10_000, 2e-6)])
def test_neither_the_time_under_load_nor_the_energy_of_a_call_depends_on_how_long_nvml_takes(
    monkeypatch: pytest.MonkeyPatch, kernels: int, kernel_s: float, query_s: float
) -> None:
    gpu = read_slowly(SimGpu(), query_s)
    call = gpu.layer(kernels, kernel_s, launch_s=1e-6)
    samples, extras = sampled(gpu, call, monkeypatch)
    assert extras["sustained_s"] == pytest.approx(median(samples.samples_s), rel=0.01)
    queued_s = gpu.depth * kernel_s  # the GPU idles during a query that takes longer
    assert extras["energy_j"] == (pytest.approx(600 * call.hot_s, rel=0.05) if query_s < queued_s else None)


@pytest.mark.parametrize(("kernels", "query_s"), [(10, 0.1e-3), (10, 3e-3), (20_000, 0.1e-3), (20_000, 3e-3)])
def test_a_call_that_keeps_the_gpu_waiting_has_neither_a_time_under_load_nor_an_energy(
    monkeypatch: pytest.MonkeyPatch, kernels: int, query_s: float
) -> None:
    # On an H200, 1,024 steps took 5.5 ms as a graph, and 6.3 J for each call: 1,140 W, of at most 700.
    gpu = read_slowly(SimGpu(), query_s)
    _, extras = sampled(gpu, gpu.layer(kernels, kernel_s=2e-6, launch_s=30e-6), monkeypatch)
    assert extras["host_bound"] is True
    assert (extras["sustained_s"], extras["energy_j"]) == (None, None)


def test_the_counter_of_energy_is_read_while_the_gpu_works(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    seen: list[str] = []
    original = gpu.gauge.energy_j

    def energy_j() -> float:
        seen.append(gpu.doing())
        return original()

    monkeypatch.setattr(gpu.gauge, "energy_j", energy_j)
    sampled(gpu, gpu.layer(2, kernel_s=1e-3), monkeypatch)
    assert seen[0] == "idle", "it is read once before the load"
    assert len(seen) > 50
    assert set(seen[1:]) == {"kernel"}


def test_a_long_call_has_a_time_under_load_too(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    call = gpu.layer(10, kernel_s=0.1)
    _, extras = sampled(gpu, call, monkeypatch)
    assert extras["sustained_s"] == pytest.approx(call.hot_s, rel=0.01)
    assert extras["energy_j"] is None, "the counter was renewed once"


def test_what_the_call_raises_gets_out_and_the_garbage_collector_is_left_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> None:
        raise MemoryError("CUDA out of memory")

    with pytest.raises(MemoryError):
        sampled(SimGpu(), call, monkeypatch)
    assert gc.isenabled()


@pytest.mark.parametrize("kernels", [2, 3000])
def test_the_change_of_the_input_comes_before_each_sample_and_is_in_none(
    monkeypatch: pytest.MonkeyPatch, kernels: int
) -> None:
    gpu, renewals = SimGpu(), 0

    def renew() -> None:
        nonlocal renewals
        renewals += 1
        gpu.enqueue("renewal", lambda begin: 3e-3, 2e-6)

    call = gpu.layer(kernels, kernel_s=10e-6)
    samples, _ = sampled(gpu, call, monkeypatch, renew=renew)
    assert renewals >= len(samples.samples_s)
    assert samples.samples_s == pytest.approx([call.cold_s] * len(samples.samples_s))


@pytest.mark.parametrize("asked_s", [0.5e-3, 5e-3])
def test_the_queue_is_held_for_at_least_as_long_as_asked(monkeypatch: pytest.MonkeyPatch, asked_s: float) -> None:
    gpu = SimGpu(clock=SimClock(boost_hz=1.98e9, sustained_hz=1.5e9))
    device = gpu.device(monkeypatch)
    start = device.mark()
    device.hold(asked_s)
    end = device.mark()
    assert not end.query()
    device.sync()
    assert asked_s <= start.elapsed_time(end) / 1e3 < 1.5 * asked_s


@pytest.mark.parametrize("kernel_s", [5e-6, 20e-6, 100e-6, 1e-3, 10e-3, 100e-3])
@pytest.mark.parametrize("name", GPUS)
def test_a_kernel_is_timed_to_within_one_per_cent_with_a_jittery_host(
    monkeypatch: pytest.MonkeyPatch, name: str, kernel_s: float
) -> None:
    gpu = SimGpu(**GPUS[name]())
    call = gpu.layer(1, kernel_s)
    samples, extras = sampled(gpu, call, monkeypatch)
    assert median_between_ticks(samples.samples_s) == pytest.approx(call.cold_s, rel=0.01)
    assert extras["queue_held"] > 0.7


@pytest.mark.parametrize("tau_s", [30e-3, 100e-3])
@pytest.mark.parametrize("kernel_s", [5e-6, 20e-6, 100e-6, 1e-3, 10e-3, 50e-3, 100e-3])
def test_a_clock_rate_that_falls_by_a_quarter_under_load_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, kernel_s: float, tau_s: float
) -> None:
    gpu = SimGpu(**USUAL, clock=SimClock(1.98e9, 0.75 * 1.98e9, tau_s))
    samples, extras, true_s = sampled_beside_the_truth(gpu, gpu.layer(1, kernel_s), monkeypatch)
    assert median(samples.samples_s) == pytest.approx(true_s, rel=0.01)
    true_mhz = 1980 * kernel_s / (true_s - gpu.gap_s)
    assert extras["sm_clock_mhz"] == pytest.approx(true_mhz, rel=0.01), "time and clock rate belong together"
    if kernel_s >= 1e-3:  # shorter kernels load the GPU more in warm-up than between the holds of their samples
        assert max(samples.samples_s) / min(samples.samples_s) < 1.08, "the clock rate was steady"


def test_batches_after_a_sudden_fall_of_the_clock_rate_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(**USUAL, clock=SimClock(1.98e9, falls_at_s=0.11))
    call = gpu.layer(1, 100e-6)
    samples, extras = sampled(gpu, call, monkeypatch)
    assert median(samples.samples_s) == pytest.approx(call.hot_s, rel=0.01)
    assert extras["sm_clock_mhz"] == pytest.approx(1980, rel=0.05)
    assert 0.2 < extras["throttled_share"] < 0.75


@pytest.mark.parametrize("nodes", [2000, 10_000])
@pytest.mark.parametrize("launch", ["eager", "graph"])
def test_a_graph_whose_launch_takes_the_host_milliseconds_is_held(
    monkeypatch: pytest.MonkeyPatch, launch: str, nodes: int
) -> None:
    gpu = SimGpu(**{**USUAL, "graph_node_s": 1e-6})
    gpu.gauge.is_open = False
    call, device = gpu.layer(nodes, 6e-6), gpu.device(monkeypatch)
    timed = device.capture(call) if launch == "graph" else call
    samples, extras = sample_cuda(timed, 0.02, device, gpu.time, is_graph=launch == "graph")
    assert (extras["gpu_time_by"], extras["graph_note"]) == ("graph", None)
    assert median(samples.samples_s) == pytest.approx(call.graph_s, rel=0.01)


@pytest.mark.parametrize("launch", ["eager", "graph"])
def test_a_graph_is_held_though_its_launch_takes_longer_while_the_queue_is_held(
    monkeypatch: pytest.MonkeyPatch, launch: str
) -> None:
    gpu = SimGpu(**{**USUAL, "graph_node_s": 0.5e-6})
    gpu.gauge.is_open = False
    call, device, original = gpu.layer(4000, 6e-6), gpu.device(monkeypatch), gpu.replay

    def replay(kernels: list[Kernel]) -> None:
        gpu.now += 20e-3 * (gpu.doing() == "spin")
        original(kernels)

    monkeypatch.setattr(gpu, "replay", replay)
    timed = device.capture(call) if launch == "graph" else call
    samples, extras = sample_cuda(timed, 0.02, device, gpu.time, is_graph=launch == "graph")
    assert extras["gpu_time_by"] == "graph"
    assert median(samples.samples_s) == pytest.approx(call.graph_s, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_a_graphs_time_does_not_depend_on_the_few_launches_by_which_its_launch_is_subtracted(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    gpu = SimGpu(graph_launch_s=6e-6, launch_jitter=0.25, seed=seed)
    gpu.gauge.is_open = False
    call = gpu.layer(30, 2e-6)
    _, extras = sampled(gpu, call, monkeypatch, 0.02)
    assert extras["graph_s"] == pytest.approx(call.cold_s, rel=0.015)


def test_what_changes_the_input_is_loaded_before_the_first_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(lazy_s=5e-3)
    changes = [Kernel(f"change {place}", 0.0) for place in range(5)]
    samples, extras = sampled(
        gpu, gpu.layer(3, 50e-6), monkeypatch, renew=lambda: [gpu.launch(one) for one in changes] and None
    )
    assert extras["queue_held"] == 1.0
    assert samples.warmup_s > 5 * gpu.lazy_s


@pytest.mark.parametrize("launches", [1, 100, 900, 1100, 10_000])
@pytest.mark.parametrize("name", GPUS)
def test_a_chain_of_launches_is_timed_to_within_one_per_cent_on_either_side_of_the_queues_depth(
    monkeypatch: pytest.MonkeyPatch, name: str, launches: int
) -> None:
    gpu = SimGpu(**GPUS[name]())
    gpu.gauge.is_open = False
    call = gpu.layer(launches, 6e-6)
    samples, extras = sampled(gpu, call, monkeypatch, 0.02)
    true_s = call.cold_by(extras["gpu_time_by"])
    assert median_between_ticks(samples.samples_s) == pytest.approx(true_s, rel=0.01)


def exponent_and_jump(gpus: dict[int, SimGpu], patch: pytest.MonkeyPatch, budget_s: float) -> tuple[float, float]:
    """The scaling exponent of a loop over n, with a GPU for each n, and the largest difference of the time per step.

    Each step has three kernels. Times are those of the summary. Samples are held at small n and of graphs at large n.
    """
    trials, ways = [], set()
    for n, gpu in gpus.items():
        gpu.gauge.is_open = False
        samples, extras = sampled(gpu, gpu.layer(3 * n, 2.3e-6), patch, budget_s)
        ways.add(extras["gpu_time_by"])
        case = Case("rnn.elman", n, 256, 1, device="cuda")
        trials.append(row(case, "time", samples_s=samples.samples_s, probe_s=1e-4, **extras))
    assert ways == {"held", "graph"}
    times_s = {line.seq_len: line.time_s for line in summarise(trials, PRECISION)}
    per_step_s = [times_s[n] / n for n in gpus]
    exponent = np.polyfit(np.log(list(gpus)), np.log([times_s[n] for n in gpus]), 1)[0]
    return float(exponent), max(per_step_s) / min(per_step_s) - 1


@pytest.mark.parametrize("name", GPUS)
def test_the_time_of_a_loop_over_n_is_linear_in_n_without_a_jump(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    gpus = {n: SimGpu(**GPUS[name]()) for n in (64, 128, 256, 320, 332, 512, 1024, 2048)}
    exponent, jump = exponent_and_jump(gpus, monkeypatch, 0.02)
    assert exponent == pytest.approx(1.0, abs=0.02)
    assert jump < 0.01


def test_memory_that_the_driver_hands_out_for_a_workspace_is_in_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(lazy_s=5e-3)
    call = gpu.layer(3, 50e-6, workspace_bytes=2**25)
    samples, _ = sampled(gpu, call, monkeypatch)
    assert samples.samples_s == pytest.approx([call.hot_s] * len(samples.samples_s))
    assert gpu.reserved_bytes > 2**25


def test_a_host_that_slows_down_now_and_then_misses_few_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(**{**USUAL, "stall_s": 0.0, "drift": 0.2})
    _, extras = sampled(gpu, gpu.layer(300, 5e-6), monkeypatch)
    assert extras["queue_held"] > 0.85


def test_times_are_the_same_however_coarse_the_ticks_of_the_gpus_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for tick_s in (32e-9, 0.5e-6, 1.024e-6):
        gpu = SimGpu(**{**USUAL, "tick_s": tick_s})
        call = gpu.layer(1, 100e-6)
        samples, _ = sampled(gpu, call, monkeypatch)
        assert median_between_ticks(samples.samples_s) == pytest.approx(call.hot_s, rel=0.002)
        assert samples.warmup_s < 2 * LEAST_WARMUP_S, "a steady clock rate is recognised as one"


def test_a_gpus_reference_workload_tells_a_lowered_clock_rate_and_a_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    def probe_s(**changed: Any) -> float:
        return median(SimGpu(**{**USUAL, **changed}).device(monkeypatch).probe_readings())

    quiet_s = probe_s()
    assert is_quiet(probe_s(seed=1), quiet_s)
    assert not is_quiet(probe_s(clock=SimClock(falls_at_s=0.0)), quiet_s)
    shared = tuple((1e-4 * turn, 1e-4 * turn + 0.5e-4) for turn in range(10**4))
    assert not is_quiet(probe_s(neighbours=shared), quiet_s)


def test_a_call_under_load_takes_longer_once_power_has_lowered_the_clock_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(clock=SimClock(sustained_hz=0.75e9))
    call = gpu.layer(10, 100e-6)
    _, extras = sampled(gpu, call, monkeypatch)
    assert extras["sustained_s"] == pytest.approx(call.hot_s / 0.75, rel=0.02)


def test_the_simulation_knows_the_cost_of_what_it_times() -> None:
    gpu = SimGpu(gap_s=1e-6)
    call = gpu.layer(4, 9e-6)
    assert call.hot_s == pytest.approx(40e-6)
    call()
    assert gpu.idle_at[0] - gpu.launch_s == pytest.approx(call.hot_s)
    assert not math.isclose(gpu.now, gpu.idle_at[0])
