"""Torch's current CUDA device as the sampler sees it: one queue, its events, its caches and its clock rate."""

import os
from collections.abc import Callable
from typing import Any, Protocol

import torch

from harness.trial.environment import NvmlGauge, addresses
from harness.trial.workload import Unsupported

# No NVIDIA GPU has a higher clock rate. Used if NVML does not report the highest clock rate of this GPU.
_HIGHEST_SM_CLOCK_MHZ = 3200.0
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


class Event(Protocol):
    """A point in the queue. `elapsed_time` is in milliseconds, once the GPU has reached both events."""

    def query(self) -> bool:
        """Whether the GPU has reached this point."""

    def elapsed_time(self, end_event: Any) -> float:
        """The time from this event to `end_event` in milliseconds."""


class Device(Protocol):
    """What the sampler needs of a GPU. All methods but `sync` and `capture` return before the GPU does the work."""

    gauge: Any
    flush_bytes: int

    def mark(self) -> Any:
        """Enqueue an event and return it."""

    def flush_l2(self, clean: bool = False) -> None:
        """Enqueue what evicts the L2 cache. Its lines are then dirty, or `clean`."""

    def hold(self, seconds: float) -> None:
        """Hold the queue for at least `seconds`."""

    def spin(self, cycles: int) -> None:
        """Enqueue a kernel that takes this number of SM cycles."""

    def tick(self) -> None:
        """Enqueue the shortest possible kernel."""

    def sync(self) -> None:
        """Wait until the queue is empty."""

    def capture(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a replay of `call` as one CUDA graph. Raises what the call raises during the capture."""


class TorchDevice:
    """Torch's current CUDA device: its current stream, executed in order. A test's device simulates time.

    Create the device before the samples, because it allocates buffers. Raises Unsupported if the environment makes
    every launch wait, because then neither GPU nor host could be timed.
    """

    def __init__(self) -> None:
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
            raise Unsupported("CUDA_LAUNCH_BLOCKING makes every launch wait for the GPU: 'unset CUDA_LAUNCH_BLOCKING'")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.gauge = NvmlGauge(addresses(properties))
        self.flush_bytes = FLUSH_FACTOR * int(properties.L2_cache_size)
        # float32, because torch reads it at the memory's bandwidth, which it does not do for single bytes.
        self._buffer = torch.zeros(max(2, self.flush_bytes // 4), device="cuda")
        self._sum, self._one = torch.zeros((), device="cuda"), torch.zeros(1, device="cuda")
        self._cycles_per_s = 1e6 * (self.gauge.sm_clock_max_mhz or _HIGHEST_SM_CLOCK_MHZ)

    def mark(self) -> torch.cuda.Event:
        """Enqueue an event and return it."""
        event = torch.cuda.Event(enable_timing=True)
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
        torch.cuda.synchronize()

    def capture(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a replay of `call` as one CUDA graph: a single launch, whatever the number of its kernels.

        The calls before the capture are on its stream, because torch makes workspaces for each stream. Raises what the
        call raises while it is captured: a call that waits for the GPU or copies from the host cannot be captured.
        """
        graph, stream, before = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(before)
        try:
            with torch.cuda.stream(stream):
                for _ in range(_CALLS_BEFORE_CAPTURE):
                    call()
            before.wait_stream(stream)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                kept = call()
        finally:
            torch.cuda.set_stream(before)  # torch stays on the capture's stream if the capture fails

        def replay() -> Any:
            graph.replay()
            return kept  # its memory is the graph's own

        return replay

    def probe_readings(self) -> list[float]:
        """Times in seconds of the GPU's reference workload: matrix products, then a copy.

        Like the CPU's (`harness.trial.environment.probe_readings`), it tells a disturbed GPU from a slow layer. Another
        process on the GPU, and a lowered clock rate, slow it down as well. The first reading does not count.
        """
        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        factor = torch.ones(_PROBE_SIZE, _PROBE_SIZE, dtype=dtype, device="cuda")
        product = torch.empty_like(factor)
        half = self._buffer.numel() // 2
        readings = []
        with torch.no_grad():
            for _ in range(1 + _PROBE_READINGS):
                self.hold(_PROBE_HOLD_S)
                start = self.mark()
                for _ in range(_PROBE_PRODUCTS):
                    torch.mm(factor, factor, out=product)
                self._buffer[half : 2 * half].copy_(self._buffer[:half])
                end = self.mark()
                self.sync()
                readings.append(start.elapsed_time(end) / 1e3)
        return readings[1:]
