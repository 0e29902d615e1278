"""Whether `scaled_dot_product_attention` took its slowest path although a faster one was allowed."""

import torch

from harness.trial.facts.operations import Operation

# The softmax for rows that a mask may have emptied: dispatched only by the math path.
_MATH_ALONE = "aten::_safe_softmax"


class Fallback:
    """`reason` describes the fallback, or is None. A layer pinned to `math` does not count as falling back.

    The fallback is detected from dispatched operations, while the backends are switched as the layer switches them. A
    mode that intercepts `scaled_dot_product_attention` itself would disable the evaluation path of
    `nn.MultiheadAttention`.
    """

    def __init__(self) -> None:
        self.reason: str | None = None

    def add(self, operation: Operation) -> None:
        """Inspect one operation."""
        if operation.traits.name == _MATH_ALONE and _faster_allowed(operation.args[0].device.type):
            self.reason = "scaled_dot_product_attention fell back to math, which materialises the scores"


def _faster_allowed(device: str) -> bool:
    """Return whether a backend other than math is enabled, as `sdpa_kernel` sets it. The CPU has only flash."""
    backends = torch.backends.cuda
    if device == "cpu":
        return backends.flash_sdp_enabled()
    return backends.flash_sdp_enabled() or backends.mem_efficient_sdp_enabled() or backends.cudnn_sdp_enabled()
