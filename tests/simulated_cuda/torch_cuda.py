"""A stand-in for `torch.cuda` on a build of torch without CUDA, over this process's simulated GPU."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from core.trial.timing.cuda.simulated_gpu import Kernel, SimEvent, SimGenerator
from simulated_cuda import process
from simulated_cuda.operations import Costs, Repeated
from torch.overrides import TorchFunctionMode

_GPU = re.compile(r"cuda(:0)?")
_costs: list[Costs] = []
_real_clock: list[Callable[[], float]] = []


def begin() -> Any:
    """The first use of CUDA in this process begins its simulated time. Return the process's GPU."""
    mine = process.here()
    if mine.began_s is None:
        import time

        if mine.settings.nvml:
            # Its calls for the energy take simulated time alone, and a trial is no shorter than its samples.
            time.sleep(0.05)
        mine.began_s = time.perf_counter() - mine.gpu.now
        _costs[:] = [Costs()]
        _costs[0].__enter__()
    return mine.gpu


class _OnGpu(TorchFunctionMode):
    """What is asked of `cuda` is put on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        if _costs and _costs[0].unsettled is not None:
            _costs[0].unsettled.settle(given)
        devices = [str(value) for value in given if isinstance(value, str | torch.device)]
        if any(map(_GPU.fullmatch, devices)):
            begin()
            args = tuple(map(_redirected, args))
            kwargs = {name: _redirected(value) for name, value in (kwargs or {}).items()}
        elif process.is_used() and (func is torch.Tensor.cpu or (func is torch.Tensor.to and "cpu" in devices)):
            begin().sync()  # a copy to the host waits
        return func(*args, **kwargs or {})


def _redirected(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, str | torch.device) and _GPU.fullmatch(str(value)) else value


class Event(SimEvent):
    def __init__(self, enable_timing: bool = False, **more: Any) -> None:
        super().__init__(begin(), enable_timing)

    def record(self, stream: Any = None) -> None:
        super().record(None if stream is None else stream.number)

    def wait(self, stream: Any = None) -> None:
        gpu = begin()
        which = gpu.stream if stream is None else stream.number
        gpu.idle_at[which] = max(gpu.idle_at.get(which, 0.0), self.reached_at)


class Stream:
    """A stream, which waits for no other one unless it shall."""

    def __init__(self, device: Any = None, number: int = 1, **more: Any) -> None:
        self.number = number

    def wait_stream(self, other: "Stream") -> None:
        begin().join(self.number, other.number)

    def synchronize(self) -> None:
        begin().sync()


class _On:
    """`torch.cuda.stream(stream)`."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._before, begin().stream = begin().stream, self._stream.number
        _costs[0].note_stream()

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:  # torch forgets it if a capture fails
            begin().stream = self._before
            _costs[0].note_stream()


class CUDAGraph:
    def __init__(self) -> None:
        self.kernels: list[Kernel] = []

    def replay(self) -> None:
        begin().replay(self.kernels)

    def reset(self) -> None:
        self.kernels = []


class _Capture(_On):
    """`torch.cuda.graph(graph)`. What is captured is computed once, and no replay computes it anew."""

    def __init__(self, graph: CUDAGraph, stream: Stream | None = None, **more: Any) -> None:
        super().__init__(stream or Stream())
        self._graph = graph

    def __enter__(self) -> None:
        super().__enter__()
        begin().begin_capture(self._graph.kernels)

    def __exit__(self, kind: Any, *error: Any) -> None:
        begin().end_capture()
        super().__exit__(kind, *error)


class _Generators:
    """`torch.cuda.default_generators`, of one GPU."""

    def __getitem__(self, index: int) -> SimGenerator:
        return begin().generator


def _set_stream(stream: Stream) -> None:
    begin().stream = stream.number
    _costs[0].note_stream()


def _sleep(cycles: int) -> None:
    gpu = begin()
    gpu.launch(Kernel("spin", cycles, kind="spin"))


def _properties(device: Any = None) -> Any:
    gpu, settings = begin(), process.here().settings
    return SimpleNamespace(
        name=settings.name,
        total_memory=settings.memory_bytes,
        L2_cache_size=gpu.l2.size,
        multi_processor_count=1,
        major=9,
        minor=0,
        uuid=process.visible()[device if isinstance(device, int) else 0],
        clock_rate=int({**process.CLOCK, **settings.clock}["boost_hz"] / 1e3),
    )


def _memory() -> dict[str, int]:
    begin()
    allocator = _costs[0].allocator
    allocator.free()
    numbers = {"current": allocator.current, "peak": allocator.peak, "allocated": 0, "freed": 0}
    names = ("requested_bytes", "allocated_bytes", "reserved_bytes", "active_bytes")
    found = {f"{of}.all.{name}": number for of in names for name, number in numbers.items()}
    uncounted = {} if process.here().settings.allocator == "native" else dict.fromkeys(numbers, 0)
    return {**found, **{f"requested_bytes.all.{name}": number for name, number in uncounted.items()}}


def _reset_peak(device: Any = None) -> None:
    begin()
    _costs[0].allocator.reset_peak()


def _free_memory(device: Any = None) -> tuple[int, int]:
    total = process.here().settings.memory_bytes
    return total - _memory()["allocated_bytes.all.current"], total


def repeat_calls(workload: Any) -> None:
    """Have `harness.core.trial.workload.build` make calls that are computed only where their results are read."""
    build = workload.build

    def built(case: Any, *given: Any, **more: Any) -> Any:
        work = build(case, *given, **more)
        if case.device == "cuda":
            begin()
            leaves = [*work.inputs, *work.layer.parameters()]
            work.call = Repeated(work.call, [*leaves, *work.varying], leaves, _costs[0])
        return work

    workload.build = built


def _functions() -> dict[str, Any]:
    return {
        "is_available": lambda: True,
        "is_initialized": process.is_used,
        "init": lambda: begin() and None,
        "device_count": lambda: len(process.visible()),
        "current_device": lambda: begin() and 0,
        "set_device": lambda device: begin() and None,
        "get_device_properties": _properties,
        "get_device_name": lambda device=None: _properties().name,
        "get_device_capability": lambda device=None: (9, 0),
        "is_bf16_supported": lambda *given, **more: True,
        "synchronize": lambda device=None: begin().sync(),
        "_sleep": _sleep,
        "Event": Event,
        "Stream": Stream,
        "stream": _On,
        "set_stream": _set_stream,
        "default_generators": _Generators(),
        "current_stream": lambda device=None: Stream(number=begin().stream),
        "default_stream": lambda device=None: Stream(number=0),
        "CUDAGraph": CUDAGraph,
        "graph": _Capture,
        "graph_pool_handle": lambda: (0, 1),
        "is_current_stream_capturing": lambda: begin().recording is not None,
        "memory_stats": lambda device=None: _memory(),
        "reset_peak_memory_stats": _reset_peak,
        "mem_get_info": _free_memory,
        "memory_allocated": lambda device=None: _memory()["allocated_bytes.all.current"],
        "max_memory_allocated": lambda device=None: _memory()["allocated_bytes.all.peak"],
        "empty_cache": lambda: None,
        "get_allocator_backend": lambda: process.settings().allocator,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "cudart": lambda: SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0),
    }


def install() -> None:
    """Replace what `torch.cuda` consists of, in this process and those that are forked from it."""
    for name, stand_in in _functions().items():
        setattr(torch.cuda, name, stand_in)
    torch.cuda.nvtx.range_push = torch.cuda.nvtx.range_pop = torch.cuda.nvtx.mark = lambda *given: 0
    private: Any = torch._C
    private._cuda_endAllocateToPool = lambda device, pool: begin().end_allocation()
    private._cuda_releasePool = lambda device, pool: None
    _OnGpu().__enter__()
