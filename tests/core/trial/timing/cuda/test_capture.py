"""Capturing a call as a graph on a simulated GPU: what can fail, what is told, and what works afterwards."""

import gc
import weakref
from collections.abc import Callable
from statistics import median

import pytest
import torch
from core.trial.timing.cuda.simulated_gpu import Kernel, SimClock, SimGpu
from core.trial.timing.cuda.test_cache_and_launch import CASE, Captures, work
from core.trial.timing.cuda.test_sample import sampled

from harness.core.stats.estimate import is_quiet
from harness.core.trial.timing.cuda import sample_cuda
from harness.core.trial.timing.timed_trial import as_graph
from harness.core.trial.trial_kinds import outcome_of_exception

KERNEL_CYCLES = 20e3  # 20 µs


class Backward:
    """A backward pass, which autograd launches on the stream of its forward pass, made here."""

    def __init__(self, gpu: SimGpu) -> None:
        self.gpu, self.kernel = gpu, Kernel("gradient", KERNEL_CYCLES, stream=gpu.stream)

    def __call__(self) -> None:
        for _ in range(3):
            self.gpu.launch(self.kernel)


def test_a_backward_pass_is_captured_after_a_forward_pass_on_the_captures_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu()
    samples, extras = sampled(gpu, Backward(gpu), monkeypatch, 0.02, remake=lambda: Backward(gpu))
    assert (extras["gpu_time_by"], extras["graph_note"]) == ("held", None)
    assert extras["graph_s"] == pytest.approx(60e-6) == median(samples.samples_s)
    with pytest.raises(RuntimeError, match="legacy stream depend on a capturing"):
        gpu.device(monkeypatch).capture(Backward(gpu))


def test_a_replay_keeps_the_forward_pass_that_its_kernels_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, made = SimGpu(), []

    def remake() -> Backward:
        call = Backward(gpu)
        made.append(weakref.ref(call))
        return call

    replay = gpu.device(monkeypatch).capture(Backward(gpu), remake)
    gc.collect()
    assert made[0]() is not None
    del replay
    assert made[0]() is None


def test_the_calls_before_a_capture_wait_for_what_was_enqueued_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    device, call = gpu.device(monkeypatch), gpu.layer(2, 20e-6, reads_bytes=2**18)
    gpu.launch(Kernel("change", 3e6, {}, {"weights": 2**18}))
    device.capture(call)()
    gpu.launch(Kernel("change", 3e6, {}, {"weights": 2**18}))
    gpu.stream = 1
    with pytest.raises(RuntimeError, match="on stream 1 does not wait until stream 0 wrote weights"):
        call()


def test_random_numbers_can_be_drawn_after_a_capture_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()

    def call() -> None:
        gpu.launch(Kernel("dropout", KERNEL_CYCLES, draws=True))
        gpu.sync()

    samples, extras = sampled(gpu, call, monkeypatch, 0.02)
    assert "capturing" in extras["graph_note"]
    assert extras["gpu_time_by"] is None
    assert len(samples.samples_s) > 10


def handles_the_first_error(gpu: SimGpu) -> None:
    try:
        gpu.sync()
    except RuntimeError:
        gpu.launch(Kernel("another way", KERNEL_CYCLES))


def raises_its_own(gpu: SimGpu) -> None:
    try:
        {}["size"]
    except KeyError:
        raise ValueError("no such size") from None


def test_another_call_can_be_captured_after_a_capture_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    device, call = gpu.device(monkeypatch), gpu.layer(3, 20e-6)
    with pytest.raises(RuntimeError, match="not permitted"):
        device.capture(gpu.sync)
    device.capture(call)()
    device.sync()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (SimGpu.sync, "RuntimeError: CUDA error: operation not permitted when stream is capturing"),
        (handles_the_first_error, "RuntimeError: CUDA error: operation not permitted when stream is capturing"),
        (raises_its_own, "ValueError: no such size"),
    ],
)
def test_the_reason_is_the_error_that_made_the_capture_fail_and_not_one_that_follows(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[SimGpu], None], why: str
) -> None:
    gpu = SimGpu()

    def called() -> None:
        gpu.launch(Kernel("first", KERNEL_CYCLES))
        if gpu.recording is None:
            gpu.sync()
        else:
            call(gpu)

    assert sampled(gpu, called, monkeypatch, 0.02)[1]["graph_note"] == f"no CUDA graph: {why}"


def out_of_memory_in_a_capture(gpu: SimGpu, error: BaseException) -> Callable[[], None]:
    def call() -> None:
        gpu.launch(Kernel("first", KERNEL_CYCLES))
        if gpu.recording is not None:
            raise error
        gpu.sync()

    return call


def test_a_gpu_without_room_for_a_graph_leaves_the_times_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    call = out_of_memory_in_a_capture(gpu, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    samples, extras = sampled(gpu, call, monkeypatch, 0.02)
    assert extras["graph_note"] == "no room for a CUDA graph: CUDA out of memory. Tried to allocate 2 GiB"
    assert (extras["gpu_time_by"], extras["graph_s"]) == (None, None)
    assert samples.samples_s


def test_a_host_out_of_memory_in_a_capture_ends_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    with pytest.raises(MemoryError):
        sampled(gpu, out_of_memory_in_a_capture(gpu, MemoryError()), monkeypatch, 0.02)


def test_a_case_whose_graph_does_not_fit_is_out_of_memory_and_not_unsupported() -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    with pytest.raises(torch.OutOfMemoryError) as raised:
        as_graph(Captures(error), work(lambda: torch.ones(3)), CASE)  # type: ignore[arg-type]
    outcome = outcome_of_exception(raised.value)
    assert outcome["status"] == "oom"
    assert outcome["reason"].startswith("a graph needs memory of its own: measure with launch=eager")


def test_the_reference_workload_is_read_before_the_calls_under_load_lower_the_clock_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimGpu(clock=SimClock(1.98e9, 1.2e9, 1.0))
    device, readings = gpu.device(monkeypatch), list[float]()
    before_s = median(device.probe_readings())
    sample_cuda(
        gpu.layer(1, 100e-6),
        0.02,
        device,
        gpu.time,
        before_load=lambda: readings.extend(device.probe_readings()),
    )
    assert is_quiet(median(readings), before_s)
    assert not is_quiet(median(device.probe_readings()), before_s), "the load was long enough to matter"
