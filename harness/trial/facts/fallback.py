"""Whether `scaled_dot_product_attention` took its slowest path where a faster one was allowed."""

import torch

from harness.trial.facts.operations import Operation

# The softmax of rows that a mask may have emptied: dispatched by the math path, and by it alone.
_MATH_ALONE = "aten::_safe_softmax"


class Fallback:
    """`reason` says that it fell back, or is None. Pinned to `math`, it has not fallen back.

    It is told from what is dispatched while the backends are switched as the layer switches them. A mode that sees the
    call of `scaled_dot_product_attention` itself would switch off the evaluation path of `nn.MultiheadAttention`.
    """

    def __init__(self) -> None:
        self.reason: str | None = None

    def add(self, operation: Operation) -> None:
        """Look at one operation."""
        if operation.traits.name == _MATH_ALONE and _faster_allowed(operation.args[0].device.type):
            self.reason = "scaled_dot_product_attention fell back to math, which materialises the scores"


def _faster_allowed(device: str) -> bool:
    """Whether a backend beyond math is switched on, as `sdpa_kernel` switches them. The CPU has flash alone."""
    backends = torch.backends.cuda
    if device == "cpu":
        return backends.flash_sdp_enabled()
    return backends.flash_sdp_enabled() or backends.mem_efficient_sdp_enabled() or backends.cudnn_sdp_enabled()
