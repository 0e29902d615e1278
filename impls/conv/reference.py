"""Reference for the convolution, computed one tap after another.

    y_t = b + Σ_{j=0}^{k-1} W_j x_{t + j − left},   x = 0 outside the sequence and where it is padding

Each W_j is a plain matrix. A tap is applied only to positions that have an input, so no zeros are padded.
Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.conv.conv1d import Conv1d


class ConvReference(Conv1d):
    """(b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        b, n, d = x.shape
        is_real = torch.ones(b, n, 1) if attn_mask is None else attn_mask.reshape(b, n, 1)
        x = x * is_real.to(x)  # (b, n, d)
        left = self.k - 1 if is_causal else (self.k - 1) // 2
        assert self.bias is not None
        y = self.bias.expand(b, n, d).clone()  # (b, n, d)
        for tap in range(self.k):
            ahead = tap - left
            outputs = [t for t in range(n) if 0 <= t + ahead < n]
            seen = [t + ahead for t in outputs]
            y[:, outputs] += torch.einsum("ed,bnd->bne", self.weight[:, :, tap], x[:, seen])
        return y
