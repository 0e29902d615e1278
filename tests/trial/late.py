"""Layers that are right up to some size or in some precision and wrong beyond; and some that take full tiles only."""

from typing import Any

import torch
from torch import Tensor, nn

# The largest n that is verified.
VERIFIED = 256


class _Linear(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)


class HalfItsTokens(_Linear):
    """Beyond what is verified it returns the first half of them."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        return y if x.shape[1] <= VERIFIED else y[:, : x.shape[1] // 2]


class NoNumbers(_Linear):
    """Beyond what is verified its last token is no number."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        bad = torch.arange(x.shape[1]).view(1, -1, 1) >= max(VERIFIED, x.shape[1] - 1)
        return y.masked_fill(bad, float("nan"))


class NoNumbersInPadding(_Linear):
    """What comes out for padding is anybody's."""

    causal = True

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.mix(x)
        return y if attn_mask is None else y.masked_fill(~attn_mask[:, 0, 0, :, None], float("nan"))


class ZerosInHalf(_Linear):
    """In half precision a kernel that does nothing."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        return y if x.dtype == torch.float32 or x.dtype == torch.float64 else torch.zeros_like(y)


class Tiles(_Linear):
    """It takes tiles of 96 tokens, says so, and breaks where it is not heard."""

    tile = 96

    @classmethod
    def supports(cls, case: Any) -> str | None:
        return f"n must be a multiple of {cls.tile}" if case.seq_len % cls.tile else None

    def forward(self, x: Tensor) -> Tensor:
        b, _, d = x.shape
        return self.mix(x.reshape(b, -1, self.tile, d)).reshape(x.shape)


class LargeTiles(Tiles):
    """No n that is verified otherwise has one."""

    tile = 384


class PowerTiles(Tiles):
    """It does not say so; every n that it is asked for is a multiple."""

    tile = 128
    supports = None  # type: ignore[assignment]
