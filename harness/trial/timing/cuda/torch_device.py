"""Torch's current CUDA device, with the interface that the sampling needs."""

import torch

from harness.trial.timing.cuda.device import Gauge
from harness.trial.timing.cuda.gauge import NvmlGauge, addresses

# No NVIDIA GPU has a higher clock rate. Used if NVML does not report the highest clock rate of this GPU.
_HIGHEST_SM_CLOCK_MHZ = 3200.0


class TorchDevice:
    """A device whose work runs on the current stream. Create it before the samples, because it allocates a buffer."""

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.gauge: Gauge = NvmlGauge(addresses(properties))
        self.l2_bytes = int(properties.L2_cache_size)
        self._buffer = torch.empty(self.l2_bytes, dtype=torch.uint8, device="cuda")
        self._cycles_per_s = 1e6 * (self.gauge.sm_clock_max_mhz or _HIGHEST_SM_CLOCK_MHZ)

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def flush_l2(self) -> None:
        """Write as many bytes as the cache holds. Its lines are then dirty, and the timed call writes them back."""
        self._buffer.zero_()

    def hold(self, seconds: float) -> None:
        """Enqueue one thread that spins for a number of SM cycles.

        The number is computed for the highest clock rate. At a lower rate the spin takes longer, never shorter. A
        measured rate would be too low if the clock rate rose afterwards, as it does on a GPU that was idle.

        A spin ends by itself. A gate that the host opens could be held exactly as long as needed. But if a call fills
        the queue or waits for the GPU, the host would be stuck before it could open the gate.
        """
        torch.cuda._sleep(max(1, int(seconds * self._cycles_per_s)))

    def sync(self) -> None:
        torch.cuda.synchronize()
