"""Layers of somebody who tests them. Each trial imports this module: it imports little."""

import torch
from torch import Tensor, nn


class Averaging(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.proj(x.mean(dim=1, keepdim=True))


class Attention(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.mT, dim=-1) @ v


class Broken(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("this layer is broken")


class Outer:
    class OnlyShort(nn.Module):
        @staticmethod
        def supports(case):
            return "it is for short sequences" if case.seq_len > 16 else None

        def __init__(self, d_model: int) -> None:
            super().__init__()

        def forward(self, x: Tensor) -> Tensor:
            return x.clone()


class Steps(nn.Module):
    """Allocates as no law says: by blocks of 48 tokens, and after the seventh twice as much."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        blocks = -(-x.shape[1] // 48)
        return x + torch.ones(blocks * (2 if blocks > 7 else 1), 48, x.shape[2]).sum() * 0


class TwiceFrom200(nn.Module):
    """2nd² FLOPs, and 4nd² for 200 tokens and more."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.proj(x)
        return self.proj(y) if x.shape[1] >= 200 else y


class AxisWithoutDefault(Averaging):
    axes = {"window": "w"}  # noqa: RUF012
