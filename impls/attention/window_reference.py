"""Reference for restricted attention: full attention with a mask that hides all pairs farther apart than r.

Vaswani et al. 2017, section 4. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.attention.reference import AttentionReference


class WindowReference(AttentionReference):
    """(b, n, d) -> (b, n, d). A token always sees itself."""

    def __init__(self, d_model: int, num_heads: int, reach: int = 32) -> None:
        super().__init__(d_model, num_heads)
        self.reach = reach

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        if source is not None:
            raise ValueError("a window is around a token of the layer's own input, and not of a source")
        itself = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)  # (n, n)
        band = itself.tril(self.reach).triu(-self.reach)
        if attn_mask is not None:
            band = band & (attn_mask | itself.tril().triu())
        return super().forward(x, band.expand(x.shape[0], 1, -1, -1))  # (b, n, d)
