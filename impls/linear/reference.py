"""References of the layers with a matrix state, one token and one formula at a time: each layer is checked against one.

Nothing is in log space or in chunks. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.linear.ssd import RecurrentSSD


class SSDReference(RecurrentSSD):
    """Reference of Mamba-2's layer: (b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        projected = torch.einsum("ed,bnd->bne", self.in_proj.weight, x)
        inner, b, c, step = projected.split([x.shape[-1], self.state, self.state, self.num_heads], dim=-1)
        inner = inner.unflatten(-1, (self.num_heads, -1))  # (b, n, h, head_dim)
        step = torch.log(1 + torch.exp(step + self.step_bias))  # (b, n, h)
        h = x.new_zeros(x.shape[0], self.num_heads, self.state, self.head_dim)
        outputs = []
        for t in range(x.shape[1]):
            decay = torch.exp(-step[:, t] * torch.exp(self.log_rate))  # (b, h)
            written = torch.einsum("bs,bh,bhe->bhse", b[:, t], step[:, t], inner[:, t])
            h = decay[:, :, None, None] * h + written
            read = torch.einsum("bs,bhse->bhe", c[:, t], h) + self.skip[:, None] * inner[:, t]
            outputs.append(read.flatten(1))
        return torch.einsum("ed,bnd->bne", self.out_proj.weight, torch.stack(outputs, dim=1))
