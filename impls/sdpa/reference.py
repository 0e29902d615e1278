"""Reference for attention without projections: that of `impls/attention`, with queries, keys and values given.

Written for float64 and small n, not for speed.
"""

from torch import Tensor, nn

from impls.attention.reference import attended


class SdpaReference(nn.Module):
    """(b, n, 3d) -> (b, n, d).

    The input holds queries, then keys, then values, and each of these holds head after head.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (b, h, n, head_dim)
            for each in x.split(self.d_model, dim=-1)
        )
        return attended(q, k, v, attn_mask).transpose(1, 2).flatten(2)  # (b, n, d)
