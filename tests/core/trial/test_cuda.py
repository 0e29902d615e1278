"""The same trials on a GPU, and what must be true of its clock, its queue, its cache and its memory."""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest
import torch
from core.trial.timing.cuda.test_gauge import FACTS

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.device_kinds import FLUSH_FACTOR, TorchDevice
from harness.core.trial.timing.cuda import sample_cuda
from impls.registry import IMPLS

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]

MIB = 2**20
EXTRAS = FACTS | {
    *("gpu_time_by", "queue_held", "graph_s", "graph_note", "hot_gpu_s", "clean_gpu_s", "host_s", "host_bound"),
    *("wall_call_s", "energy_j", "sustained_s", "throttled_share", "l2_bytes", "graph_hot_gpu_s", "graph_clean_gpu_s"),
}


def timed(call: Callable[[], Any], device: TorchDevice | None = None) -> tuple[float, dict[str, Any]]:
    """The median sample of a tenth of a second, and the extras."""
    samples, extras = sample_cuda(call, 0.1, device or TorchDevice())
    return median(samples.samples_s), extras


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[Executor]:
    """One fork server for all tests: starting one imports torch, which takes some seconds."""
    with Executor(seed=0, trial_s=0.01, timeout_s=120, memory_limit=None) as runner:
        yield runner


# Layers that have no other mode.
ONLY_DECODE = ("sdpa.paged",)
# Layers whose calls ask the GPU for lengths, so that they can be neither held nor captured.
MAY_WAIT = ("sdpa.nested", "sdpa.paged", "sdpa.varlen")


def case_of(impl: str) -> Case:
    """Four queries share a key in some layers, so four heads. `test_cuda_cases.py` shows that none is refused."""
    mode = "decode" if impl in ONLY_DECODE else "forward"
    return Case(impl, 128, 128, 4, mode=mode, dtype="bfloat16", device="cuda")


@pytest.mark.parametrize("impl", IMPLS)
def test_a_layer_is_verified_weighed_and_timed_on_the_gpu(on_gpu: Executor, impl: str) -> None:
    for purpose in ("verify", "facts", "time"):
        outcome = on_gpu.run(purpose, case_of(impl))
        if outcome.status == "unsupported" and "is not installed" in outcome.reason:
            pytest.skip(outcome.reason)
        assert outcome.status == "ok", outcome.reason
    assert outcome.values["probe_s"] > 0
    if impl not in MAY_WAIT or outcome.values["graph_note"] is None:
        assert outcome.values["gpu_time_by"] in ("held", "graph")


def test_memory_beyond_the_gpus_is_out_of_memory(on_gpu: Executor) -> None:
    outcome = on_gpu.run("facts", Case("attention.packed", 10**6, 64, 2, device="cuda"))
    assert outcome.status == "oom"


def test_the_bytes_that_are_requested_in_a_block_are_counted_exactly() -> None:
    if (why := TorchDevice.uncounted()) is not None:
        pytest.skip(why)
    kept = torch.empty(1000, dtype=torch.uint8, device="cuda")
    before = TorchDevice.start_peak()
    for numbers in (300, 70_001):  # one after the other, beside what is kept
        torch.empty(numbers, dtype=torch.uint8, device="cuda")
    del kept
    assert TorchDevice.requested_bytes("peak") - before == 70_001


def test_work_of_a_known_length_is_timed_as_the_host_sees_it_and_twice_the_work_takes_twice_as_long() -> None:
    once, extras = timed(lambda: torch.cuda._sleep(2_000_000))
    twice, _ = timed(lambda: torch.cuda._sleep(4_000_000))
    assert once == pytest.approx(extras["wall_call_s"], rel=0.05)
    assert twice == pytest.approx(2 * once, rel=0.1)
    assert extras["queue_held"] > 0.5
    assert extras["host_bound"] is False


@pytest.mark.parametrize("asked_s", [0.5e-3, 5e-3])
def test_the_queue_is_held_for_at_least_as_long_as_asked(asked_s: float) -> None:
    device = TorchDevice()
    device.hold(asked_s)  # the first loads the kernel
    device.sync()
    start = device.mark()
    device.hold(asked_s)
    end = device.mark()
    assert not end.query()
    device.sync()
    assert start.elapsed_time(end) / 1e3 > 0.98 * asked_s


def test_a_tiny_operation_behind_much_python_is_host_bound_and_its_sample_is_the_gpus_alone() -> None:
    x = torch.zeros(16, device="cuda")

    def call() -> None:
        for _ in range(20_000):
            pass
        x.add_(1)

    seconds, extras = timed(call)
    assert extras["queue_held"] > 0.5
    assert extras["host_bound"] is True
    assert seconds < 0.5 * extras["host_s"]
    assert extras["wall_call_s"] > 0.8 * extras["host_s"]


def test_a_large_matrix_product_is_not_host_bound() -> None:
    x = torch.randn(4096, 4096, device="cuda")
    _, extras = timed(lambda: x @ x)
    assert extras["host_bound"] is False


def test_a_call_of_more_launches_than_the_queue_has_room_for_is_timed_as_a_graph() -> None:
    x = torch.zeros(16, device="cuda")

    def call() -> None:
        for _ in range(20_000):
            x.add_(1)

    seconds, extras = timed(call)
    assert (extras["queue_held"], extras["gpu_time_by"]) == (0.0, "graph"), extras["graph_note"]
    assert seconds == pytest.approx(extras["graph_s"], rel=0.01)
    assert seconds < extras["wall_call_s"]


def test_a_short_call_takes_the_same_time_held_and_as_a_graph() -> None:
    x = torch.zeros(2**24, device="cuda")

    def call() -> None:
        for _ in range(20):
            x.add_(1)

    seconds, extras = timed(call)
    assert extras["graph_s"] is None or extras["graph_s"] == pytest.approx(seconds, rel=0.05)


@pytest.mark.parametrize("clean", [False, True])
def test_after_a_flush_what_was_in_the_cache_is_read_at_the_memorys_bandwidth_at_most(clean: bool) -> None:
    device = TorchDevice()
    l2_bytes = device.flush_bytes // FLUSH_FACTOR
    x = torch.ones(l2_bytes // 2 // 4, device="cuda")  # half of the cache
    out = torch.empty((), device="cuda")

    def call() -> None:
        torch.sum(x, dim=0, out=out)

    # That a warm cache is faster is a statement of the contract (`timing/cuda/test_contract.py`), of a smaller array: a
    # cache of two halves may hold no more than half of its bytes.
    cold_s, extras = timed(call, device)
    seconds = extras["clean_gpu_s"] if clean else cold_s
    assert l2_bytes / 2 / seconds < physical_bandwidth(device), "a part of it was still in the cache"


def physical_bandwidth(device: TorchDevice) -> float:
    """Bytes per second of the memory by its clock and its bus. Skips the test if NVML does not tell."""
    pynvml = pytest.importorskip("pynvml")
    handle = device.gauge._handle
    if handle is None:
        pytest.skip(f"NVML does not say what memory this is: {device.gauge.facts()['nvml_note']}")
    clock_hz = 1e6 * pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)
    return 2 * clock_hz * pynvml.nvmlDeviceGetMemoryBusWidth(handle) / 8  # two transfers a cycle


def test_a_copy_stays_below_the_memorys_physical_bandwidth_and_within_sight_of_it() -> None:
    device = TorchDevice()
    count = 8 * max(device.flush_bytes, 32 * MIB)
    source, target = torch.empty(2, count, dtype=torch.uint8, device="cuda").unbind()
    seconds, _ = timed(lambda: target.copy_(source), device)
    physical = physical_bandwidth(device)
    assert 0.1 * physical < 2 * count / seconds < physical


def test_every_fact_of_a_timed_call_is_told() -> None:
    x = torch.randn(1024, 1024, device="cuda")
    _, extras = timed(lambda: x @ x)
    assert set(extras) == EXTRAS
    assert extras["l2_bytes"] > 0
    if extras["nvml_note"] is None:
        # The clock rate is measured: ticks of 1 µs are 0.4 % of its 0.3 ms, and NVML rounds the highest one to 1 MHz.
        assert 0 < extras["sm_clock_mhz"] <= 1.01 * extras["sm_clock_max_mhz"]
        assert extras["power_w"] > 0
        assert extras["temperature_c"] > 0


def test_the_samples_of_a_trial_fork_know_the_gpu_too(on_gpu: Executor) -> None:
    outcome = on_gpu.run("time", case_of("attention.fused"))
    assert outcome.values.keys() >= EXTRAS
    assert outcome.values["calls_per_sample"] == 1


def test_peak_memory_is_what_a_count_by_hand_says() -> None:
    # A block that earlier tests left behind may be larger than asked for, and counts as large as it is.
    torch.cuda.empty_cache()
    held = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")

    def call() -> torch.Tensor:
        first = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
        second = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        del first
        kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        return second if kept.numel() < second.numel() else kept

    call()
    assert allocator_peak(call, "cuda")[0] == 6 * MIB
    assert held.numel() == 4 * MIB
