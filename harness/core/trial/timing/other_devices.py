"""Intel's and Apple's GPUs as the sampler sees them. Neither has run on such a device yet: tests simulate them.

They have no kernel of a known duration. A product of matrices holds the queue instead, repeated as often as needed.
Whether that was long enough is observed for each sample, as on CUDA.
"""

import math

import torch

from .cuda_device import TorchDevice
from .device_contract import NoGauge

# Torch does not tell the size of these caches. The largest last-level caches of Intel's and Apple's GPUs have 408 and
# 96 MiB.
_CACHE_BYTES = {"xpu": 408 * 2**20, "mps": 96 * 2**20}
# A product that holds the queue takes at least this long, or its launches would take longer than the product.
_LEAST_HOLD_S = 0.2e-3
_HOLD_SIZES = (512, 1024, 2048, 4096)


class _HeldByProducts(TorchDevice):
    """A GPU without a spin."""

    def _look(self) -> int:
        self.gauge = NoGauge(f"torch.{self.kind} tells neither clock rate nor energy")
        self.lacks |= {
            "gauge": f"torch.{self.kind} does not tell it",
            "spin": f"torch.{self.kind} has no kernel of a known number of cycles",
        }
        return _CACHE_BYTES[self.kind]

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

    kind = "xpu"

    def _look(self) -> int:
        if not hasattr(torch.xpu, "XPUGraph"):
            self.lacks["capture"] = "this torch has no graphs of XPU devices: install a newer one"
        return super()._look()


class MpsDevice(_HeldByProducts):
    """Torch's Apple GPU."""

    kind = "mps"

    def _look(self) -> int:
        self.lacks["capture"] = "torch.mps has no graphs"
        return super()._look()
