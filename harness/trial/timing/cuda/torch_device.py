"""Torch's current CUDA device, as the sampling sees it."""

import torch

from harness.trial.timing.cuda.device import Gauge
from harness.trial.timing.cuda.gauge import NvmlGauge, addresses

# No NVIDIA GPU clocks higher; used where NVML does not say what this one's highest clock is.
_HIGHEST_SM_CLOCK_MHZ = 3200.0


class TorchDevice:
    """Everything on the current stream. Made before the samples, so that its buffer is allocated outside them."""

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
        """Write as many bytes as the cache holds. Its lines are then dirty, and writing them back falls to the call."""
        self._buffer.zero_()

    def hold(self, seconds: float) -> None:
        """One thread that spins for a number of SM cycles.

        The number is counted at the highest clock: at a lower one it takes longer, never shorter. A measured rate
        would be too low if the clock rose afterwards, as it does in a GPU that was at rest.

        A spin ends by itself. A gate that the host opens could be held exactly as long as needed, but would never
        open for a call that fills the queue or waits for the GPU: the host would be stuck before it.
        """
        torch.cuda._sleep(max(1, int(seconds * self._cycles_per_s)))

    def sync(self) -> None:
        torch.cuda.synchronize()
