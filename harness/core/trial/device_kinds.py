"""Torch's devices, a class for each kind: which are available, their memory, and what the sampler needs of a GPU.

The sampler needs one queue, its events, its caches, its clock rate and its gauge: the methods of `TorchDevice` that are
no class methods. Whoever adds a device writes a subclass, and its line of `GPU_KINDS`.

Intel's and Apple's have not been run on such a device yet: tests simulate them. They have no kernel of a known
duration. A product of matrices holds the queue instead, repeated as often as needed. Whether that was long enough is
observed for each sample, as on CUDA.
"""

import contextlib
import math
import os
from dataclasses import dataclass
from typing import Any

import torch

from .device import EVENTS, WAITS, is_rocm
from .nvml import NoGauge, NvmlGauge, addresses
from .workload import Call, Remake, Unsupported

# No NVIDIA GPU has a higher clock rate. Used if NVML does not report the highest clock rate of this GPU.
_HIGHEST_SM_CLOCK_MHZ = 3200.0
# A counter's rate is measured by a spin of this many cycles: 10 ms at 100 MHz. A hold must not be too short.
_RATE_CYCLES = 1_000_000
_RATE_MARGIN = 1.1
# One pass over exactly the cache's size need not evict all of it: the L2 of newer GPUs has two hashed partitions.
FLUSH_FACTOR = 2
# The reference workload: products of this size, then a copy of the flush buffer's first half onto its second half.
_PROBE_SIZE = 2048
_PROBE_PRODUCTS = 8
_PROBE_READINGS = 8
# Holds the GPU while one reading of the reference workload is enqueued.
_PROBE_HOLD_S = 0.5e-3
# Calls on the stream of a capture before the capture: libraries make their handles and workspaces in them.
_CALLS_BEFORE_CAPTURE = 2
# CUDA's error for all that follows the error in a capture.
_AFTER_FAILURE = "previous error during capture"
# The allocator's count of the bytes that were requested, not of the blocks that served them.
_REQUESTED = "requested_bytes.all."


@dataclass(frozen=True)
class _Replay:
    """One launch of a captured call, which returns the results.

    They lie in the graph's own memory. The kernels also read what `captured` keeps, such as an earlier forward pass.
    """

    graph: Any
    captured: Call
    kept: Any

    def __call__(self) -> Any:
        self.graph.replay()
        return self.kept


def _cause(error: Exception) -> Exception:
    """The error that made a capture fail, if a layer has handled it and met the ones that follow from it."""
    while _AFTER_FAILURE in str(error) and isinstance(error.__context__, Exception):
        error = error.__context__
    return error


class _WithoutCounter:
    """The memory of a device whose allocator keeps no peak."""

    @classmethod
    def requested_bytes(cls, which: str = "current") -> int:
        """0: nothing is counted."""
        return 0

    start_peak = requested_bytes


class CpuDevice(_WithoutCounter):
    """The CPU. The profiler counts its memory instead (`call_memory.allocator_peak`)."""

    @classmethod
    def uncounted(cls) -> None:
        """None: its memory is counted."""


class TorchDevice:
    """Torch's current CUDA device: its current stream, executed in order. A test's device simulates time.

    ROCm has the same functions. But the cycles of its spin are those of a counter whose rate does not follow the clock.

    All methods but `sync` and `capture` return before the GPU does the work. `lacks` holds the parts of
    `timed_trial.NEEDED_FOR` that are missing, and why. Their methods are not called.

    Create the device before the samples, because it allocates buffers. Raises Unsupported if the environment makes
    every launch wait, because then neither GPU nor host could be timed.
    """

    kind, graph = "cuda", "CUDAGraph"
    # How to get a torch for the device. A torch without it cannot see the device.
    install = "this torch is a CPU build: install a CUDA build of torch (see pytorch.org), then the harness"

    @classmethod
    def module(cls) -> Any:
        """Torch's module of this kind of GPU, such as `torch.cuda`."""
        return getattr(torch, cls.kind)

    @classmethod
    def is_built(cls) -> bool:
        """Whether this torch is built for the kind."""
        return torch.version.cuda is not None or is_rocm()

    @classmethod
    def name_of(cls, index: int = 0) -> str:
        """The name of a GPU, such as `NVIDIA H100`."""
        return cls.module().get_device_name(index)

    @classmethod
    def uuid_of(cls, index: int) -> str | None:
        """The UUID of a GPU, as CUDA_VISIBLE_DEVICES and NVML take it: `GPU-…`, or `MIG-…` for a slice of a GPU.

        None on ROCm, and in older versions of torch. `index` counts the devices that torch sees.
        """
        properties = torch.cuda.get_device_properties(index)
        uuid = str(getattr(properties, "uuid", "")).rpartition("GPU-")[2]
        if not uuid or is_rocm():
            return None
        return f"{'MIG' if ' MIG ' in f'{properties.name} ' else 'GPU'}-{uuid}"

    @classmethod
    def describe(cls) -> dict[str, Any]:
        """What torch sees of this kind: the number of GPUs and their names, and `lacking` if there are none.

        `lacking` is what to install. It is None if torch is built for the kind, so that the device or its driver is
        missing. `uuids` identify NVIDIA's GPUs, in the same order, where torch tells them. This initialises the
        devices, so a process that is forked must not call it.
        """
        count = cls.module().device_count() if cls.module().is_available() else 0
        lacking = None if count or cls.is_built() else cls.install
        uuids = [cls.uuid_of(index) for index in range(count)] if cls.kind == "cuda" else []
        return {"count": count, "names": list(map(cls.name_of, range(count))), "uuids": uuids, "lacking": lacking}

    @classmethod
    def total_memory(cls) -> int:
        """The bytes of the GPU's memory, or of the part of the machine's that an Apple GPU may use."""
        return cls.module().get_device_properties(torch.device(cls.kind)).total_memory

    @classmethod
    def free_memory(cls) -> int:
        """The bytes of the GPU's memory that are free now."""
        return cls.module().mem_get_info()[0]

    @classmethod
    def cache_size(cls) -> int | None:
        """The bytes of the GPU's last cache; None if torch does not tell it."""
        return getattr(cls.module().get_device_properties(torch.device(cls.kind)), "L2_cache_size", None)

    @classmethod
    def uncounted(cls) -> str | None:
        """What keeps torch's allocator from counting the GPU's memory, or None: another allocator, or none."""
        if torch.cuda.get_allocator_backend() != "native":
            return f"torch uses the allocator {torch.cuda.get_allocator_backend()}"
        is_off = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "0") not in ("", "0")
        return "PYTORCH_NO_CUDA_MEMORY_CACHING is set" if is_off else None

    @classmethod
    def requested_bytes(cls, which: str = "current") -> int:
        """The bytes of the GPU's memory that are requested now, or their `peak` since `start_peak`."""
        cls.module().synchronize()
        return cls.module().memory_stats()[_REQUESTED + which]

    @classmethod
    def start_peak(cls) -> int:
        """Count the peak anew from now on. Return the bytes that are requested now."""
        before = cls.requested_bytes()
        cls.module().reset_peak_memory_stats()
        return before

    def __init__(self) -> None:
        self.lacks: dict[str, str] = {}
        self.flush_bytes = FLUSH_FACTOR * self._look()
        # float32, because torch reads it at the memory's bandwidth, which it does not do for single bytes.
        self._buffer = torch.zeros(max(2, self.flush_bytes // 4), device=self.kind)
        self._sum, self._one = torch.zeros((), device=self.kind), torch.zeros(1, device=self.kind)
        self._calibrate()

    def _look(self) -> int:
        """Open the gauge and note what is missing. Return the size of the last cache in bytes."""
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
            raise Unsupported("CUDA_LAUNCH_BLOCKING makes every launch wait for the GPU: 'unset CUDA_LAUNCH_BLOCKING'")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.gauge: Any = NvmlGauge(addresses(properties))  # or `NoGauge`, which is never read
        if not self.gauge.is_open:
            self.lacks["gauge"] = f"nothing reads the GPU: {self.gauge.facts().get('nvml_note')}"
        return properties.L2_cache_size

    def _calibrate(self) -> None:
        """Find out how long a spin takes."""
        self._cycles_per_s = 1e6 * (self.gauge.sm_clock_max_mhz or _HIGHEST_SM_CLOCK_MHZ)
        if is_rocm():
            self.lacks["spin"] = "ROCm counts cycles at a rate that does not follow the clock rate"
            self._cycles_per_s = _RATE_MARGIN * _RATE_CYCLES / self._second_s(lambda: self.spin(_RATE_CYCLES))

    def _second_s(self, call: Call) -> float:
        """The GPU's seconds for the second of two calls."""
        for _ in range(2):
            start = self.mark()
            call()
            end = self.mark()
            self.sync()
        return start.elapsed_time(end) / 1e3

    def mark(self) -> Any:
        """Enqueue an event, a point in the queue, and return it. `query` says whether the GPU has reached it."""
        event = EVENTS[self.kind](enable_timing=True)
        event.record()
        return event

    def flush_l2(self, clean: bool = False) -> None:
        """Enqueue a write of `FLUSH_FACTOR` times as many bytes as the L2 cache holds, or a read if `clean`.

        After a write, the cache's lines are dirty, and the timed call writes them back.
        """
        if clean:
            torch.sum(self._buffer, dim=0, out=self._sum)
        else:
            self._buffer.zero_()

    def hold(self, seconds: float) -> None:
        """Hold the queue for at least `seconds` once the GPU reaches this point: later entries wait.

        One thread spins for a number of SM cycles. The number is computed for the highest clock rate. At a lower rate
        the spin takes longer, never shorter. A measured rate would be too low if the clock rate rose afterwards, as it
        does on a GPU that was idle.

        A spin ends by itself. A gate that the host opens could be held exactly as long as needed. But if a call fills
        the queue or waits for the GPU, the host would be stuck before it could open the gate.
        """
        self.spin(max(1, int(seconds * self._cycles_per_s)))

    def spin(self, cycles: int) -> None:
        """Enqueue a kernel of one thread that takes this number of SM cycles."""
        torch.cuda._sleep(cycles)

    def tick(self) -> None:
        """Enqueue a kernel that writes one number."""
        self._one.zero_()

    def sync(self) -> None:
        """Wait until the queue is empty."""
        WAITS[self.kind]()

    def capture(self, call: Call, remake: Remake | None = None) -> Call:
        """Return a replay of `call` as one CUDA graph: a single launch, whatever the number of its kernels.

        The calls before the capture are on its stream, because torch makes workspaces for each stream. With `remake`,
        the call is one that it makes on this stream. A backward pass needs this, because autograd runs it on the stream
        of its forward pass. Raises what the call raises while it is captured: a call that waits for the GPU or copies
        from the host cannot be captured.
        """
        gpu = self.module()
        graph, stream, before = getattr(gpu, self.graph)(), gpu.Stream(), gpu.current_stream()
        pool, failure = gpu.graph_pool_handle(), None
        stream.wait_stream(before)
        try:
            with gpu.stream(stream):
                captured = call if remake is None else remake()
                for _ in range(_CALLS_BEFORE_CAPTURE):
                    captured()
            before.wait_stream(stream)
            gpu.synchronize()
            with gpu.graph(graph, pool=pool, stream=stream):
                try:
                    kept = captured()
                except Exception as error:
                    failure = error
                    raise
        except Exception as error:
            gpu.set_stream(before)  # torch stays on the capture's stream if the capture cannot end
            self._forget(graph, pool)
            raise _cause(failure or error) from None
        return _Replay(graph, captured, kept)

    def _forget(self, graph: Any, pool: Any) -> None:
        """Leave a capture that failed, so that torch can draw random numbers, free memory and capture again."""
        graph.reset()
        device = self.module().current_device()
        # Up to torch 2.12, random numbers stay in the capture. A copy of their state takes part in none.
        generator = self.module().default_generators[device]
        generator.graphsafe_set_state(generator.clone_state())
        # Up to torch 2.11, the allocator stays in it too. Newer versions end this themselves, and not a second time.
        names = [f"_{self.kind}_{end}" for end in ("endAllocateToPool", "endAllocateCurrentStreamToPool")]
        end = next(getattr(torch._C, name) for name in names if hasattr(torch._C, name))
        with contextlib.suppress(RuntimeError):
            end(device, pool)
            getattr(torch._C, f"_{self.kind}_releasePool")(device, pool)

    def _square(self, size: int) -> Any:
        """A square matrix in half precision."""
        # Apple's GPUs have bfloat16 or not, by their age. All GPUs have float16.
        has_bf16 = self.kind != "mps" and self.module().is_bf16_supported()
        dtype = torch.bfloat16 if has_bf16 else torch.float16
        return torch.ones(size, size, dtype=dtype, device=self.kind)

    def probe_readings(self) -> list[float]:
        """Times in seconds of the GPU's reference workload: matrix products, then a copy.

        Like the CPU's (`environment.probe_readings`), it tells a disturbed GPU from a slow layer. Another
        process on the GPU, and a lowered clock rate, slow it down as well. The first reading does not count.
        """
        factor = self._square(_PROBE_SIZE)
        product = torch.empty_like(factor)
        half = self._buffer.numel() // 2
        readings = []
        with torch.no_grad():
            for _ in range(1 + _PROBE_READINGS):
                if "hold" not in self.lacks:
                    self.hold(_PROBE_HOLD_S)
                start = self.mark()
                for _ in range(_PROBE_PRODUCTS):
                    torch.mm(factor, factor, out=product)
                self._buffer[half : 2 * half].copy_(self._buffer[:half])
                end = self.mark()
                self.sync()
                readings.append(start.elapsed_time(end) / 1e3)
        return readings[1:]


# A product that holds the queue takes at least this long, or its launches would take longer than the product.
_LEAST_HOLD_S = 0.2e-3
_HOLD_SIZES = (512, 1024, 2048, 4096)


class _HeldByProducts(TorchDevice):
    """A GPU without a spin. Torch does not tell the size of its cache: `cache_bytes` is that of the largest GPU."""

    cache_bytes: int

    @classmethod
    def uncounted(cls) -> str | None:
        """None: torch's allocator counts the memory."""
        return None

    def _look(self) -> int:
        self.gauge = NoGauge(f"torch.{self.kind} tells neither clock rate nor energy")
        self.lacks |= {
            "gauge": f"torch.{self.kind} does not tell it",
            "spin": f"torch.{self.kind} has no kernel of a known number of cycles",
        }
        return self.cache_bytes

    def _calibrate(self) -> None:
        for size in _HOLD_SIZES:
            self._factor = self._square(size)
            self._product = torch.empty_like(self._factor)
            self._product_s = self._second_s(self._multiply)
            if self._product_s >= _LEAST_HOLD_S:
                return

    def _multiply(self) -> None:
        torch.mm(self._factor, self._factor, out=self._product)

    def hold(self, seconds: float) -> None:
        """Hold the queue for about `seconds` once the GPU reaches this point."""
        with torch.no_grad():
            for _ in range(max(1, math.ceil(seconds / self._product_s))):
                self._multiply()


class XpuDevice(_HeldByProducts):
    """Torch's current XPU device: a GPU of Intel's."""

    kind, graph = "xpu", "XPUGraph"
    install = "this torch is not built for it: 'pip install torch --index-url https://download.pytorch.org/whl/xpu'"
    cache_bytes = 408 * 2**20

    @classmethod
    def is_built(cls) -> bool:
        """Whether this torch is built for the kind."""
        return torch.xpu._is_compiled()

    def _look(self) -> int:
        if not hasattr(torch.xpu, self.graph):
            self.lacks["capture"] = "this torch has no graphs of XPU devices: install a newer one"
        return super()._look()


class MpsDevice(_WithoutCounter, _HeldByProducts):
    """Torch's Apple GPU. It has no name of its own, and a part of the machine's memory."""

    kind = "mps"
    install = "this torch is not built for it: MPS needs macOS on Apple silicon"
    cache_bytes = 96 * 2**20

    @classmethod
    def is_built(cls) -> bool:
        """Whether this torch is built for the kind."""
        return torch.backends.mps.is_built()

    @classmethod
    def name_of(cls, index: int = 0) -> str:
        """A name for all of them."""
        return "Apple GPU"

    @classmethod
    def total_memory(cls) -> int:
        """The bytes of the machine's memory that the GPU may use."""
        return torch.mps.recommended_max_memory()

    @classmethod
    def free_memory(cls) -> int:
        """The bytes of this memory that are free now."""
        return cls.total_memory() - torch.mps.current_allocated_memory()

    @classmethod
    def cache_size(cls) -> None:
        """None: torch does not tell it."""

    @classmethod
    def uncounted(cls) -> str:
        """Why no peak is counted."""
        return "torch keeps no peak of an Apple GPU's memory"

    def _look(self) -> int:
        self.lacks["capture"] = "torch.mps has no graphs"
        return super()._look()


GPU_KINDS = {"cuda": TorchDevice, "xpu": XpuDevice, "mps": MpsDevice}
DEVICES: dict[str, type[CpuDevice | TorchDevice]] = {"cpu": CpuDevice, **GPU_KINDS}
