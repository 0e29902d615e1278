"""Reference for a stack of encoder blocks: each takes the output of the one before, and the first adds positions.

Vaswani et al. 2017, section 3.1. Written for float64 and small n, not for speed.
"""

from functools import reduce
from typing import Any

from torch import Tensor, nn

from impls.blocks.reference import DEFAULT_REFERENCE, EncoderReference


class EncoderStackReference(nn.Module):
    """(b, n, d) -> (b, n, d)."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: str = DEFAULT_REFERENCE,
        attention_options: dict[str, Any] | None = None,
        layers: int = 6,
    ) -> None:
        super().__init__()
        first = EncoderReference(d_model, num_heads, attention, attention_options)
        others = [
            EncoderReference(d_model, num_heads, attention, attention_options, adds_positions=False)
            for _ in range(layers - 1)
        ]
        self.layers = nn.ModuleList([first, *others])

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return reduce(lambda y, layer: layer(y, attn_mask), self.layers, x)  # (b, n, d)
