"""GPUs that are not CUDA's, on the simulated GPU: what they lack leaves columns empty, and the rest is right."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from core.trial.timing.cuda.few_functions import SimTensor, bind, simulated_torch
from core.trial.timing.cuda.simulated_gpu import SimGpu

from harness.core.model.sweep_axes import Case
from harness.core.trial import device as devices
from harness.core.trial import device_kinds
from harness.core.trial.device_kinds import GPU_KINDS, MpsDevice, TorchDevice, XpuDevice
from harness.core.trial.timing import timed_trial
from harness.core.trial.timing.cuda import sample_cuda
from harness.core.trial.timing.cuda_sampling import Sampling


def on(gpu: SimGpu, patch: pytest.MonkeyPatch, kind: str) -> TorchDevice:
    """The device of this kind on a simulated GPU, whose torch has the functions of the kind only."""
    simulated = simulated_torch(gpu)
    names = ("Event", "synchronize")
    if kind == "xpu":
        names += ("Stream", "current_stream", "set_stream", "stream", "graph", "is_bf16_supported")
        names += ("default_generators", "current_device", "graph_pool_handle")
    functions = {name: getattr(simulated.cuda, name) for name in names}
    if kind == "xpu":
        functions["XPUGraph"] = simulated.cuda.CUDAGraph
    del simulated.cuda
    setattr(simulated, kind, SimpleNamespace(**functions))
    bind(kind, getattr(simulated, kind), patch)

    def zeros(*shape: Any, device: str) -> SimTensor:
        assert device == kind
        gpu.allocate(1)
        return SimTensor(gpu, f"array {gpu.reserved_bytes}", shape[0] if shape and isinstance(shape[0], int) else 1)

    simulated.zeros, simulated.ones = zeros, lambda *shape, dtype, device: zeros(shape[0], device=device)
    patch.setattr(device_kinds, "torch", simulated)
    return {"xpu": XpuDevice, "mps": MpsDevice}[kind]()


def sampled(
    gpu: SimGpu, patch: pytest.MonkeyPatch, kind: str, call: Callable[[], None]
) -> tuple[float, dict[str, Any]]:
    """The median sample, and the extras."""
    samples, extras = sample_cuda(call, 0.05, on(gpu, patch, kind), gpu.time)
    return sorted(samples.samples_s)[len(samples.samples_s) // 2], extras


@pytest.mark.parametrize("kind", ["xpu", "mps"])
@pytest.mark.parametrize("kernel_s", [20e-6, 2e-3])
def test_the_gpus_time_is_right_without_a_spin_because_products_hold_the_queue(
    monkeypatch: pytest.MonkeyPatch, kind: str, kernel_s: float
) -> None:
    gpu = SimGpu(launch_s=8e-6, l2_bytes=2**22)
    call = gpu.layer(3, kernel_s, reads_bytes=2**20)
    seconds, extras = sampled(gpu, monkeypatch, kind, call)
    assert seconds == pytest.approx(call.cold_s, rel=0.01)
    assert extras["hot_gpu_s"] == pytest.approx(call.hot_s, rel=0.01)
    assert (extras["gpu_time_by"], extras["queue_held"] > 0.9) == ("held", True)


def test_what_a_device_lacks_is_empty_and_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    _, extras = sampled(gpu, monkeypatch, "mps", gpu.layer(3, 20e-6))
    assert (extras["throttled_share"], extras["energy_j"], extras["graph_s"]) == (None, None, None)
    assert extras["graph_note"] == "no graph: torch.mps has no graphs"
    assert "sm_clock_mhz" not in extras
    assert extras["gauge_note"] == "torch.mps tells neither clock rate nor energy"
    assert timed_trial.missing_parts(Case("x", 1, 1, 1, device="mps")) == [
        "graph_s: torch.mps has no graphs",
        "energy_j: torch.mps does not tell it",
        "sm_clock_mhz, throttled_share: torch.mps has no kernel of a known number of cycles",
    ]
    assert timed_trial.missing_parts(Case("x", 1, 1, 1)) == []


def test_a_call_of_too_many_launches_has_no_time_of_the_gpu_without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(depth=200)
    _, extras = sampled(gpu, monkeypatch, "mps", gpu.layer(2000, 1e-6))
    assert (extras["gpu_time_by"], extras["queue_held"]) == (None, 0.0)
    assert extras["wall_call_s"] > 2e-3


def test_a_call_of_too_many_launches_is_replayed_as_a_graph_on_an_xpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(depth=200)
    seconds, extras = sampled(gpu, monkeypatch, "xpu", gpu.layer(2000, 1e-6))
    assert extras["gpu_time_by"] == "graph"
    assert seconds == pytest.approx(2e-3, rel=0.01)


def test_a_device_that_cannot_hold_its_queue_has_no_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    device = gpu.device(monkeypatch)
    monkeypatch.setattr(TorchDevice, "hold", lambda self, seconds: pytest.fail("it has no such method"))
    device.lacks["hold"] = "no kernel waits"
    assert all(reading > 0 for reading in device.probe_readings())
    samples, extras = sample_cuda(gpu.layer(3, 20e-6), 0.02, device, gpu.time)
    assert len(samples.samples_s) > 0
    assert (extras["gpu_time_by"], extras["queue_held"], extras["hot_gpu_s"]) == (None, 0.0, None)


@pytest.mark.parametrize("cache", ["cold", "clean", "hot"])
def test_a_device_that_cannot_flush_its_cache_has_times_of_a_hot_cache_only(
    monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    gpu = SimGpu()
    device, call = gpu.device(monkeypatch), gpu.layer(3, 20e-6)
    monkeypatch.setattr(TorchDevice, "flush_l2", lambda self, clean=False: pytest.fail("it has no such method"))
    device.lacks["flush"] = "the cache is unknown"
    _, extras = sample_cuda(call, 0.02, device, gpu.time, cache=cache)
    assert (extras["gpu_time_by"], extras["clean_gpu_s"]) == ("held" if cache == "hot" else None, None)
    if cache != "hot":
        assert extras["hot_gpu_s"] is extras["graph_s"] is None
        assert (extras["queue_held"], extras["graph_note"]) == (0.0, "no graph: the cache is unknown")


def test_a_call_whose_hot_batches_were_never_held_may_be_host_bound_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    monkeypatch.setattr(Sampling, "hot", lambda *_: None)
    _, extras = sample_cuda(gpu.layer(3, 20e-6), 0.02, gpu.device(monkeypatch), gpu.time)
    assert (extras["gpu_time_by"], extras["hot_gpu_s"], extras["host_bound"]) == ("held", None, None)


def test_rocm_shares_cudas_functions_but_for_the_clock_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu()
    monkeypatch.setattr(device_kinds, "is_rocm", lambda: True)
    monkeypatch.setattr(gpu.gauge, "sm_clock_max_mhz", 30_000)  # the counter is slower than the clock
    device = gpu.device(monkeypatch)
    assert device.lacks == {"spin": "ROCm counts cycles at a rate that does not follow the clock rate"}
    start = device.mark()
    device.hold(1e-3)
    end = device.mark()
    device.sync()
    assert 1e-3 <= start.elapsed_time(end) / 1e3 < 1.2e-3


def test_a_reference_of_an_apple_gpus_layer_runs_where_float64_is() -> None:
    assert devices.reference_device("mps") == "cpu"
    assert devices.reference_device("cuda") == "cuda"
    assert devices.to_float64(torch.ones(2)).dtype == torch.float64


def test_devices_that_are_not_there_are_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in GPU_KINDS:
        monkeypatch.setattr(getattr(torch, kind), "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    found = {kind: device.describe() for kind, device in GPU_KINDS.items()}
    assert {kind: one["count"] for kind, one in found.items()} == {"cuda": 0, "xpu": 0, "mps": 0}
    assert "install a CUDA build" in found["cuda"]["lacking"]
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert TorchDevice.describe()["lacking"] is None


def test_the_peak_of_an_xpu_is_what_its_allocator_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"requested_bytes.all.current": 100, "requested_bytes.all.peak": 100}
    module = SimpleNamespace(
        synchronize=lambda: None, reset_peak_memory_stats=lambda: None, memory_stats=lambda: dict(told)
    )
    monkeypatch.setattr(XpuDevice, "module", lambda: module)
    before = XpuDevice.start_peak()
    told["requested_bytes.all.peak"] = 350
    assert XpuDevice.requested_bytes("peak") - before == 250
    assert XpuDevice.uncounted() is None
    assert MpsDevice.uncounted() == "torch keeps no peak of an Apple GPU's memory"
