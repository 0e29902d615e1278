"""A kernel of attention alone: queries, keys and values of each token lie side by side in its input."""

from typing import ClassVar

import torch
from torch import Tensor, nn


class PackedKernel(nn.Module):
    """(b, n, 3d) -> (b, n, d), all heads' scores in memory."""

    input_width = 3
    reference = "sdpa.naive"
    claims: ClassVar = {"work": "4n²d", "work_train": "12n²d", "memory": "hn² + nd", "depth": "1"}

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def forward(self, qkv: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        b, n, _ = qkv.shape
        q, k, v = qkv.view(b, n, 3, self.num_heads, -1).unbind(2)  # (b, n, h, head_dim) each
        scores = torch.einsum("bihe,bjhe->bhij", q, k) / q.shape[-1] ** 0.5
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        return torch.einsum("bhij,bjhe->bihe", scores.softmax(-1), v).flatten(2)  # (b, n, d)
