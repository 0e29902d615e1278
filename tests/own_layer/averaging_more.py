"""The mean of all tokens that one may look at, projected: with a reference, claims, masks and steps."""

from typing import ClassVar

import torch
from torch import Tensor, nn


class AveragingReference(nn.Module):
    """The same as a weighted sum with an n × n matrix of weights, whose rows sum to 1."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        b, n, _ = x.shape
        looks = torch.ones(b, n, n).to(x) if attn_mask is None else attn_mask[:, 0].to(x).expand(b, n, n)
        return (looks / looks.sum(-1, keepdim=True)) @ self.proj(x)  # (b, n, d)


class Averaging(nn.Module):
    """(b, n, d) -> (b, n, d)."""

    family = "averaging"
    reference = AveragingReference
    claims: ClassVar = {
        "work": "2nd²",  # one product of (n, d) by (d, d)
        "work_train": "6nd²",
        "work_decode": "2d²",
        "memory": "nd",
        "depth": "1",
    }

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        v = self.proj(x)  # (b, n, d)
        if is_causal:
            return v.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        if attn_mask is None:
            return v.mean(dim=1, keepdim=True).expand_as(v)
        real = attn_mask[:, 0, 0, :, None]  # (b, n, 1): a padding mask tells which tokens are real
        return ((v * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)).expand_as(v)

    def start(self, batch_size: int, seq_len: int) -> tuple[Tensor, int]:
        """What decoding keeps: the sum of all tokens so far, (b, d), and how many they are."""
        return self.proj.weight.new_zeros(batch_size, self.proj.out_features), 0

    def step(self, x_t: Tensor, state: tuple[Tensor, int]) -> tuple[Tensor, tuple[Tensor, int]]:
        total, seen = state
        total, seen = total + self.proj(x_t), seen + 1
        return total / seen, (total, seen)
