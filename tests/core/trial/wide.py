"""Layers without weights whose input is wider than their output, as a kernel's is. Each what its name says."""

from typing import ClassVar

import torch
from torch import Tensor, nn


class Weighted(nn.Module):
    """(b, n, 2d) -> (b, n, d): values, and how much each token counts, averaged over the tokens that one may see."""

    input_width = 2
    claims: ClassVar = {"work": "2n²d", "depth": "1"}

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        values, logits = x.split(self.d_model, dim=-1)
        scores = logits.mean(-1)[:, None].expand(-1, x.shape[1], -1)  # (b, n, n)
        if attn_mask is not None:
            scores = torch.where(attn_mask[:, 0], scores, float("-inf"))
        return torch.softmax(scores, -1) @ values  # (b, n, d)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return x.new_ones(1, 1, x.shape[1], x.shape[1]) / x.shape[1]


class IsToldAndLooks(Weighted):
    """It takes a mask, and hides the values alone: not how much each counts."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        values, logits = x.split(self.d_model, dim=-1)
        weights = torch.softmax(logits.mean(-1)[:, None].expand(-1, x.shape[1], -1), -1)
        return (weights if attn_mask is None else weights * attn_mask[:, 0]) @ values


class ReturnsItsInput(Weighted):
    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return x * 1.0


class Steps(Weighted):
    """It has all that decoding takes, and no token that could be the next input."""

    def start(self, batch_size: int, seq_len: int) -> None: ...

    def step(self, x_t: Tensor, state: None) -> tuple[Tensor, None]:
        return x_t, state


class HalfAsWide(Weighted):
    input_width = 0.5  # type: ignore[assignment]


class RunningSum(nn.Module):
    """As wide as its output, without weights, and it decodes."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1)

    def start(self, batch_size: int, seq_len: int) -> Tensor | float:
        return 0.0

    def step(self, x_t: Tensor, state: Tensor | float) -> tuple[Tensor, Tensor]:
        return x_t + state, x_t + state
