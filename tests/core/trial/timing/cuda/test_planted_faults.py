"""Tests of the tests: with each of these mistakes planted in the sampler, one test of it fails, which is named here."""

from collections.abc import Callable
from statistics import fmean, median
from typing import Any

import pytest
from core.trial.timing.cuda import test_capture as capturing
from core.trial.timing.cuda import test_sample as contract
from core.trial.timing.cuda.simulated_gpu import SimEvent

from harness.core.trial import device_kinds
from harness.core.trial.device_kinds import TorchDevice
from harness.core.trial.timing import cuda, cuda_sampling
from harness.core.trial.timing.cuda_sampling import Held, Sampling

Patch = pytest.MonkeyPatch


def nvml_is_read_during_the_spin(patch: Patch) -> None:
    def under_load(self: Sampling, seconds: float, warm_s: float) -> dict[str, float]:
        for _ in range(4):
            self.device.hold(5e-3)
            self.call()
            self.device.gauge.read()
            self.device.sync()
        return {}

    patch.setattr(Sampling, "under_load", under_load)


def the_host_waits_for_the_part_just_enqueued(patch: Patch) -> None:
    patch.setattr(SimEvent, "synchronize", lambda self: self.gpu.sync())


def an_eighth_of_the_cache_is_flushed(patch: Patch) -> None:
    patch.setattr(device_kinds, "FLUSH_FACTOR", 1 / 8)


def just_the_cache_is_flushed(patch: Patch) -> None:
    patch.setattr(device_kinds, "FLUSH_FACTOR", 1)


def the_hold_has_hardly_a_margin(patch: Patch) -> None:
    patch.setattr(cuda_sampling, "HOLD_MARGIN", 1.05)


def empty_pairs_count_though_they_wait_for_the_host(patch: Patch) -> None:
    patch.setattr(cuda, "_EMPTY_HOLD_S", 1e-9)


def the_hold_is_in_milliseconds(patch: Patch) -> None:
    hold = TorchDevice.hold
    patch.setattr(TorchDevice, "hold", lambda self, seconds: hold(self, seconds / 1e3))


def events_are_on_another_stream(patch: Patch) -> None:
    def mark(self: TorchDevice) -> Any:
        event = device_kinds.torch.cuda.Event(enable_timing=True)
        event.record(7)
        return event

    patch.setattr(TorchDevice, "mark", mark)


def events_have_no_timing(patch: Patch) -> None:
    def mark(self: TorchDevice) -> Any:
        event = device_kinds.torch.cuda.Event()
        event.record()
        return event

    patch.setattr(TorchDevice, "mark", mark)


def samples_are_averaged(patch: Patch) -> None:
    for estimator in ("median", "median_between_ticks"):
        patch.setattr(cuda_sampling, estimator, fmean)


def coarse_times_have_a_plain_median(patch: Patch) -> None:
    patch.setattr(contract, "median_between_ticks", median)
    patch.setattr(cuda, "median_between_ticks", median)


def host_bound_is_judged_by_cold_calls(patch: Patch) -> None:
    def hot(self: Sampling, budget_s: float, host_s: float, gpu_s: float, most: int) -> float:
        return median(self.held(budget_s, host_s).gpu_s)

    patch.setattr(Sampling, "hot", hot)


def the_flush_is_inside_the_events(patch: Patch) -> None:
    flush, mark = TorchDevice.flush_l2, TorchDevice.mark
    due: list[bool] = []

    def marked(self: TorchDevice) -> Any:
        event = mark(self)
        while due:
            flush(self, due.pop())
        return event

    patch.setattr(TorchDevice, "flush_l2", lambda self, clean=False: due.append(clean))
    patch.setattr(TorchDevice, "mark", marked)


def a_call_that_cannot_be_held_is_timed_with_its_launches(patch: Patch) -> None:
    def as_graph(sampling: Sampling, remake: None, budget_s: float, share: float) -> tuple[Held, None, None]:
        gpu_s = sampling.free(budget_s).gpu_s
        return Held(gpu_s, gpu_s, [1e9] * len(gpu_s), len(gpu_s), 1), None

    patch.setattr(cuda, "_as_graph", as_graph)


def the_launch_of_a_graph_is_not_subtracted(patch: Patch) -> None:
    patch.setattr(cuda, "_graph_launch_s", lambda sampling: 0.0)


def the_launch_of_a_graph_is_that_of_three(patch: Patch) -> None:
    patch.setattr(cuda, "LAUNCHES", 3)


def the_host_pays_for_one_launch_of_a_graph(patch: Patch) -> None:
    patch.setattr(Sampling, "rehearse", lambda self: 50e-6)


def a_graph_is_given_up_like_a_call(patch: Patch) -> None:
    patch.setattr(cuda, "MISSES_ONCE_HELD", cuda_sampling.MISSES)


def warm_up_is_of_calls_alone(patch: Patch) -> None:
    def enqueuing_s(self: Sampling) -> float:
        begin = self.clock()
        self.call()
        return self.clock() - begin

    patch.setattr(Sampling, "_enqueuing_s", enqueuing_s)


def throttled_batches_are_kept(patch: Patch) -> None:
    patch.setattr(cuda_sampling, "THROTTLED", 0.0)


def a_clock_rate_that_still_falls_is_not_waited_for(patch: Patch) -> None:
    patch.setattr(cuda_sampling, "STEADY_CLOCK", 1.0)


def power_is_nvmls_average_of_a_second(patch: Patch) -> None:
    under_load = Sampling.under_load
    patch.setattr(Sampling, "under_load", lambda self, *given: {**under_load(self, *given), **_nvml_power(self)})


def _nvml_power(sampling: Sampling) -> dict[str, float]:
    power_w = sampling.device.gauge.facts()["power_w"]
    return {"power_w": power_w}


def the_stream_of_a_failed_capture_stays(patch: Patch) -> None:
    original = TorchDevice.capture

    def capture(self: TorchDevice, call: Callable[[], Any], remake: Any) -> Callable[[], Any]:
        patch.setattr(device_kinds.torch.cuda, "set_stream", lambda stream: None)
        return original(self, call, remake)

    patch.setattr(TorchDevice, "capture", capture)


def a_failed_capture_is_only_reset(patch: Patch) -> None:
    patch.setattr(TorchDevice, "_forget", lambda self, graph, pool: graph.reset())


def a_backward_pass_is_captured_with_its_old_forward_pass(patch: Patch) -> None:
    original = TorchDevice.capture
    patch.setattr(TorchDevice, "capture", lambda self, call, remake=None: original(self, call))


def only_the_results_of_a_captured_call_are_kept(patch: Patch) -> None:
    patch.setattr(device_kinds, "_Replay", lambda graph, captured, kept: lambda: graph.replay())


def the_captures_stream_waits_for_itself(patch: Patch) -> None:
    original = TorchDevice.capture

    def capture(self: TorchDevice, call: Callable[[], Any], remake: Any = None) -> Callable[[], Any]:
        patch.setattr(device_kinds.torch.cuda, "current_stream", device_kinds.torch.cuda.Stream)
        return original(self, call, remake)

    patch.setattr(TorchDevice, "capture", capture)


def the_last_error_of_a_capture_is_told(patch: Patch) -> None:
    patch.setattr(device_kinds, "_cause", lambda error: error)


def the_reference_workload_is_read_after_the_load(patch: Patch) -> None:
    def after(*given: Any, before_load: Callable[[], None]) -> Any:
        found = cuda.sample_cuda(*given)
        before_load()
        return found

    patch.setattr(capturing, "sample_cuda", after)


COLD = contract.test_samples_are_cold_clean_ones_cost_no_writing_back_and_calls_back_to_back_are_warm
HELD = contract.test_the_queue_is_held_for_at_least_as_long_as_asked
PLANTED: tuple[tuple[Callable[[Patch], None], Callable[..., None], tuple[Any, ...]], ...] = (
    (nvml_is_read_during_the_spin, contract.test_the_gauge_is_read_a_few_times_and_only_while_calls_run, ()),
    (
        the_host_waits_for_the_part_just_enqueued,
        contract.test_the_counter_of_energy_is_read_while_the_gpu_works,
        (),
    ),
    (an_eighth_of_the_cache_is_flushed, COLD, ()),
    (just_the_cache_is_flushed, COLD, ()),
    (the_hold_has_hardly_a_margin, contract.test_a_host_that_slows_down_now_and_then_misses_few_holds, ()),
    (
        empty_pairs_count_though_they_wait_for_the_host,
        contract.test_the_cost_of_the_clock_and_its_rate_hold_no_wait_for_a_slow_host_and_nothing_of_a_gpu_at_rest,
        (),
    ),
    (the_hold_is_in_milliseconds, HELD, (5e-3,)),
    (events_are_on_another_stream, HELD, (5e-3,)),
    (events_have_no_timing, HELD, (5e-3,)),
    (
        samples_are_averaged,
        contract.test_a_hot_time_is_that_of_the_usual_call_if_another_process_had_the_gpu_once,
        (),
    ),
    (
        coarse_times_have_a_plain_median,
        contract.test_a_kernel_is_timed_to_within_one_per_cent_with_a_jittery_host,
        ("older", 5e-6),
    ),
    *(
        (
            samples_are_averaged,
            contract.test_one_disturbed_sample_does_not_decide_whether_a_call_is_host_bound,
            (way,),
        )
        for way in ("hot", "free", "back_to_back")
    ),
    (
        host_bound_is_judged_by_cold_calls,
        contract.test_a_call_whose_launches_take_longer_than_its_hot_work_is_host_bound_though_its_cold_work_takes_longer_still,
        (),
    ),
    (
        the_flush_is_inside_the_events,
        contract.test_a_call_that_keeps_the_gpu_waiting_is_called_host_bound_and_both_of_its_times_are_given,
        (),
    ),
    (
        a_call_that_cannot_be_held_is_timed_with_its_launches,
        contract.test_the_time_of_a_loop_over_n_is_linear_in_n_without_a_jump,
        ("usual",),
    ),
    (
        the_launch_of_a_graph_is_not_subtracted,
        contract.test_a_call_that_keeps_the_gpu_waiting_is_called_host_bound_and_both_of_its_times_are_given,
        (),
    ),
    (
        the_launch_of_a_graph_is_that_of_three,
        contract.test_a_graphs_time_does_not_depend_on_the_few_launches_by_which_its_launch_is_subtracted,
        (1,),
    ),
    (
        the_host_pays_for_one_launch_of_a_graph,
        contract.test_a_graph_whose_launch_takes_the_host_milliseconds_is_held,
        ("eager", 10_000),
    ),
    *(
        (
            a_graph_is_given_up_like_a_call,
            contract.test_a_graph_is_held_though_its_launch_takes_longer_while_the_queue_is_held,
            (launch,),
        )
        for launch in ("eager", "graph")
    ),
    (warm_up_is_of_calls_alone, contract.test_what_changes_the_input_is_loaded_before_the_first_sample, ()),
    (
        throttled_batches_are_kept,
        contract.test_batches_after_a_sudden_fall_of_the_clock_rate_are_dropped_and_counted,
        (),
    ),
    (
        a_clock_rate_that_still_falls_is_not_waited_for,
        contract.test_a_clock_rate_that_falls_by_a_quarter_under_load_is_waited_for,
        (1e-3, 100e-3),
    ),
    (
        power_is_nvmls_average_of_a_second,
        contract.test_the_energy_of_a_call_is_that_of_calls_alone_whatever_the_gpu_did_in_the_second_before,
        (),
    ),
    (
        a_failed_capture_is_only_reset,
        capturing.test_random_numbers_can_be_drawn_after_a_capture_that_failed,
        (),
    ),
    (
        a_failed_capture_is_only_reset,
        capturing.test_another_call_can_be_captured_after_a_capture_that_failed,
        (),
    ),
    (
        a_backward_pass_is_captured_with_its_old_forward_pass,
        capturing.test_a_backward_pass_is_captured_after_a_forward_pass_on_the_captures_stream,
        (),
    ),
    (
        only_the_results_of_a_captured_call_are_kept,
        capturing.test_a_replay_keeps_the_forward_pass_that_its_kernels_read,
        (),
    ),
    (
        the_captures_stream_waits_for_itself,
        capturing.test_the_calls_before_a_capture_wait_for_what_was_enqueued_before_them,
        (),
    ),
    (
        the_last_error_of_a_capture_is_told,
        capturing.test_the_reason_is_the_error_that_made_the_capture_fail_and_not_one_that_follows,
        (
            capturing.handles_the_first_error,
            "RuntimeError: CUDA error: operation not permitted when stream is capturing",
        ),
    ),
    (
        the_reference_workload_is_read_after_the_load,
        capturing.test_the_reference_workload_is_read_before_the_calls_under_load_lower_the_clock_rate,
        (),
    ),
    (
        the_stream_of_a_failed_capture_stays,
        contract.test_a_call_that_waits_for_the_gpu_has_no_time_of_the_gpu_and_says_why,
        (),
    ),
)


@pytest.mark.parametrize(("plant", "named", "values"), PLANTED, ids=[plant.__name__ for plant, _, _ in PLANTED])
def test_a_planted_fault_makes_a_test_fail(
    monkeypatch: Patch, plant: Callable[[Patch], None], named: Callable[..., None], values: tuple[Any, ...]
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError)):
        named(monkeypatch, *values)
