"""The few functions of torch by which `TorchDevice` uses a GPU, on a simulated one: for quick tests of the sampler."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from core.trial.timing.cuda.simulated_gpu import Kernel, SimEvent, SimGpu

from harness.core.trial import device, device_kinds


def device_on(gpu: SimGpu, patch: pytest.MonkeyPatch) -> device_kinds.TorchDevice:
    """The harness's device on this GPU."""
    patch.setattr(device_kinds, "torch", simulated := simulated_torch(gpu))
    bind("cuda", simulated.cuda, patch)
    patch.setattr(device_kinds, "NvmlGauge", lambda where: gpu.gauge)
    patch.setattr(device_kinds, "addresses", lambda properties: [])
    return device_kinds.TorchDevice()


def bind(kind: str, module: Any, patch: pytest.MonkeyPatch) -> None:
    """Give the harness this module's events, and its wait, as those of the kind."""
    patch.setitem(device.EVENTS, kind, module.Event)
    patch.setitem(device.WAITS, kind, module.synchronize)


class SimTensor:
    """An array of so many numbers on the GPU, in four bytes each."""

    def __init__(self, gpu: SimGpu, name: str, numbers: int) -> None:
        self.gpu, self.name, self.numbers = gpu, name, numbers

    def numel(self) -> int:
        return self.numbers

    def __getitem__(self, part: slice) -> "SimTensor":
        whole = range(self.numbers)[part]
        return SimTensor(self.gpu, f"{self.name} from {whole.start}", len(whole))

    def item(self) -> float:
        """Copy one number to the host, which waits for it."""
        self.gpu.sync()
        return 0.0

    def copy_(self, source: "SimTensor") -> None:
        self.gpu.launch(Kernel("copy", 0.0, {source.name: 4 * source.numbers}, {self.name: 4 * self.numbers}))

    def zero_(self) -> None:
        nbytes = 4 * self.numbers
        self.gpu.launch(Kernel("fill", 1e-6 * self.gpu.clock.boost_hz, {}, {self.name: nbytes}, "flush"))


def simulated_torch(gpu: SimGpu) -> Any:
    """The part of torch that `TorchDevice` uses for its samples, on this GPU."""

    def zeros(*shape: Any, device: str) -> SimTensor:
        assert device == "cuda"
        gpu.allocate(1)
        return SimTensor(gpu, f"array {gpu.reserved_bytes}", shape[0] if shape and isinstance(shape[0], int) else 1)

    def mm(factor: SimTensor, other: SimTensor, out: SimTensor) -> None:
        gpu.launch(Kernel("product", 25e-6 * gpu.clock.boost_hz))

    def total(tensor: SimTensor, dim: int, out: SimTensor) -> None:
        gpu.launch(Kernel("sum", 1e-6 * gpu.clock.boost_hz, {tensor.name: 4 * tensor.numbers}, {}, "flush"))

    def sleep(cycles: int) -> None:
        gpu.holds.append(cycles / gpu.clock.boost_hz)
        gpu.launch(Kernel("spin", gpu.spin_cycles + cycles, kind="spin"))

    class Graph:
        def __init__(self) -> None:
            self.kernels: list[Kernel] = []

        def replay(self) -> None:
            gpu.replay(self.kernels)

        def reset(self) -> None:
            self.kernels = []

    @contextlib.contextmanager
    def on_stream(stream: Any) -> Iterator[None]:
        before, gpu.stream = gpu.stream, stream.number
        yield
        gpu.stream = before  # not after an exception: torch forgets it if a capture fails

    @contextlib.contextmanager
    def capture(graph: Graph, pool: tuple[int, int], stream: Any) -> Iterator[None]:
        with on_stream(stream):
            gpu.begin_capture(graph.kernels)
            try:
                yield
            finally:
                gpu.end_capture()

    def stream(number: int) -> Any:
        return SimpleNamespace(number=number, wait_stream=lambda other: gpu.join(number, other.number))

    cuda = SimpleNamespace(
        Event=lambda enable_timing=False: SimEvent(gpu, enable_timing),
        _sleep=sleep,
        synchronize=gpu.sync,
        current_device=lambda: 0,
        get_device_properties=lambda device: SimpleNamespace(L2_cache_size=gpu.l2.size),
        CUDAGraph=Graph,
        Stream=lambda: stream(1),
        current_stream=lambda: stream(gpu.stream),
        is_bf16_supported=lambda: True,
        set_stream=lambda chosen: setattr(gpu, "stream", chosen.number),
        stream=on_stream,
        graph=capture,
        default_generators=[gpu.generator],
        graph_pool_handle=lambda: (0, 1),
    )
    ends = {f"_{kind}_endAllocateToPool": lambda device, pool: gpu.end_allocation() for kind in ("cuda", "xpu")}
    private = SimpleNamespace(**ends, _cuda_releasePool=lambda device, pool: None)
    arrays = {"ones": lambda *shape, dtype, device: zeros(shape[0], device=device), "empty_like": lambda like: like}
    dtypes = {"bfloat16": "bfloat16", "float16": "float16"}
    return SimpleNamespace(
        cuda=cuda, zeros=zeros, sum=total, mm=mm, no_grad=contextlib.nullcontext, _C=private, **arrays, **dtypes
    )
