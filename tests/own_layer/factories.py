"""Callables that build a layer: partials of a class, and functions of d_model."""

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class Near(nn.Module):
    """Attention with one head to the tokens less than `window` away."""

    axes: ClassVar[dict[str, Any]] = {"window": ("w", 8)}

    def __init__(self, d_model: int, num_heads: int = 1, window: int = 8) -> None:
        super().__init__()
        self.proj, self.window = nn.Linear(d_model, d_model, bias=False), window

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        places = torch.arange(x.shape[1])
        seen = (places[:, None] - places).abs() < self.window
        seen = seen.tril() if is_causal else seen
        scores = self.proj(x) @ x.mT
        return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ x


class Copy(Near):
    reference = Near


class Other(Copy):
    """One token more than its reference sees."""

    def __init__(self, d_model: int, num_heads: int = 1, window: int = 8) -> None:
        super().__init__(d_model, num_heads, window + 1)


class ByName(Near):
    reference = f"{__file__}:Near"


named_3 = partial(ByName, window=3)
near_3 = partial(Copy, window=3)
other_3 = partial(Other, window=3)
of_one_head = partial(Copy, num_heads=1)


def make(d_model: int, num_heads: int):
    assert num_heads == 2
    return Copy(d_model, window=3)


def make_near(d_model: int, window: int = 3) -> Copy:
    return Copy(d_model, window=window)


def make_none(d_model: int) -> int:
    return d_model


def sees_all(d_model: int) -> nn.Module:
    return Copy(d_model, window=99)


sees_all.causal = True
near_3.claims = {"work": "2nd² + 4n²d"}


def compiled(d_model: int) -> nn.Module:
    return torch.jit.script(nn.Linear(d_model, d_model))
